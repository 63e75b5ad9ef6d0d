SELECT town, COUNT(*) AS people
FROM {{ source('private', 'people') }}
GROUP BY town
