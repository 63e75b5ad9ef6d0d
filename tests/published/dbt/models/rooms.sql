SELECT room, COUNT(DISTINCT person_id) AS visitors
FROM {{ source('private', 'visits') }}
GROUP BY room
ORDER BY visitors DESC
LIMIT 3
