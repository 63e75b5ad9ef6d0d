{{ config(materialized='incremental', unique_key='month') }}
SELECT DATE_TRUNC('month', ts) AS month, COUNT(*) AS events
FROM {{ source('app', 'events') }}
{% if is_incremental() %}
WHERE ts >= (SELECT MAX(month) FROM {{ this }})
{% endif %}
GROUP BY 1
