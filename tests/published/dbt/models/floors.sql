SELECT f.floor, SUM(r.visitors) AS visitors, SQRT(SUM(r.visitors_stddev ^ 2)) AS visitors_stddev
FROM {{ ref('rooms') }} AS r
JOIN {{ source('public', 'rooms') }} AS f USING (room)
GROUP BY f.floor
