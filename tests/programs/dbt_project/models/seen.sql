{{ config(materialized='view') }}
SELECT country, COUNT(*) AS people FROM {{ source('app', 'users') }} GROUP BY country
