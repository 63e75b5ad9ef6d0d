SELECT action, COUNT(*) FROM (SELECT user_id, action, ROW_NUMBER() OVER (PARTITION BY user_id) AS r FROM events) t WHERE r <= 2 GROUP BY action
SELECT device, COUNT(*) FROM (SELECT user_id, device, action, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS r FROM events) t WHERE r <= 2 GROUP BY device
SELECT action, COUNT(*) FROM (SELECT DISTINCT ON (user_id) user_id, action FROM events ORDER BY user_id, ts) t GROUP BY action
SELECT COUNT(*) FROM (SELECT user_id, action, LAG(action) OVER (PARTITION BY user_id ORDER BY ts) AS p, NTILE(3) OVER (PARTITION BY user_id ORDER BY article_id) AS q FROM events) t WHERE p = action AND q = 2
SELECT COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS a, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY event_id) AS b FROM events) t WHERE a = b
SELECT COUNT(*) FROM (SELECT user_id, article_id, SUM(amount) OVER (PARTITION BY user_id ROWS UNBOUNDED PRECEDING) AS s FROM events) t WHERE s > 0.01
SELECT COUNT(*) FROM (SELECT user_id, FIRST_VALUE(device) OVER (PARTITION BY user_id ORDER BY ts) AS f, action FROM events) t WHERE f = 'tv'
SELECT COUNT(*) FROM (SELECT user_id, SUM(amount) AS s, AVG(amount) AS a, STDDEV(quantity) AS d FROM events GROUP BY user_id) t WHERE s > 0.03 AND a > 0.005 AND d > 1.5
SELECT COUNT(*) FROM (SELECT user_id, SUM(amount) OVER (PARTITION BY user_id, action) AS s FROM events) t WHERE s > 0.03
