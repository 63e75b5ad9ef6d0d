SELECT country, people / SUM(people) OVER () AS share
FROM {{ ref('countries') }}
