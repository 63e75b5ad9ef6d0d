SELECT COUNT(DISTINCT user_id) FROM users
SELECT COUNT(*) FROM users WHERE country <> 'US' OR country IS NULL
SELECT COUNT(*), COUNT(birth_year), COUNT(DISTINCT user_id) FROM users
SELECT COUNT(*) FROM events
SELECT COUNT(amount) FROM events WHERE action IN ('like', 'share')
SELECT COUNT(*) FILTER (WHERE action = 'like') AS likes, COUNT(DISTINCT user_id) FILTER (WHERE amount > 50) FROM events
SELECT COUNT(DISTINCT CASE WHEN action = 'share' THEN user_id END) FROM events
SELECT COUNT(DISTINCT user_id) FROM users WHERE job_title LIKE 'eng\_%' OR job_title ILIKE 'ENGINEER\%'
SELECT COUNT(DISTINCT user_id) FROM users WHERE NOT (country = 'DE') AND birth_year BETWEEN 1960 AND 1980
SELECT COUNT(DISTINCT user_id) FROM users WHERE lower(job_title) = 'engineer' AND length(job_title) = 8
SELECT COUNT(*) FROM users WHERE birth_year / 10 = 197 AND birth_year % 2 = 0 AND -birth_year / 7 < -280
SELECT COUNT(*) FROM users WHERE coalesce(country, 'none') || job_title = 'noneChef' OR substring(job_title, 1, 3) = 'Eng'
SELECT COUNT(*) FROM users WHERE (country = 'US') IS NOT TRUE AND country IS NOT DISTINCT FROM NULL
SELECT COUNT(*) FROM users WHERE extract(year FROM signup_date) = 2023 AND signup_date >= DATE '2023-03-01'
SELECT COUNT(*) FROM events WHERE ts::date = '2024-02-29' AND extract(dow FROM ts) IN (0, 4, 6)
SELECT COUNT(*) FROM events WHERE floor(amount / 10) * 10 = 20 AND abs(quantity) > 1
SELECT COUNT(*) FROM users WHERE trim(job_title) = upper('king') OR nullif(country, 'US') IS NULL
SELECT country, COUNT(DISTINCT user_id) FROM users GROUP BY country
SELECT country AS c, COUNT(*) AS n FROM users WHERE country IN ('US', 'DE') GROUP BY c ORDER BY n DESC
SELECT birth_year / 10 AS decade, COUNT(*) FROM users WHERE birth_year BETWEEN 1950 AND 1999 GROUP BY 1
SELECT (birth_year >= 1990) AS young, COUNT(*) FROM users WHERE birth_year >= 1940 OR birth_year IS NULL GROUP BY 1
SELECT CASE WHEN amount > 50 THEN 'high' WHEN amount > 10 THEN 'mid' ELSE 'low' END, COUNT(*) FROM events GROUP BY 1
SELECT action, COUNT(*), COUNT(DISTINCT user_id) FROM events GROUP BY action ORDER BY action
SELECT upper(action) || '!' AS a, COUNT(*) FROM events GROUP BY upper(action) || '!'
SELECT date_trunc('month', ts) AS m, action, COUNT(*) FROM events GROUP BY 1, 2 ORDER BY 1, 2
SELECT ts::date, COUNT(DISTINCT user_id) FROM events WHERE ts >= '2024-01-10' AND ts < TIMESTAMP '2024-01-20' GROUP BY 1
SELECT extract(month FROM ts) AS m, extract(day FROM ts) AS d, COUNT(*) FROM events GROUP BY 1, 2
SELECT extract(hour FROM ts) AS h, COUNT(*) FROM events GROUP BY h HAVING COUNT(*) > 20 ORDER BY 2 DESC, 1
SELECT date_trunc('week', signup_date) AS w, COUNT(*) FROM users GROUP BY 1
SELECT date_trunc('quarter', ts) AS q, COUNT(*) FROM events WHERE ts > '2024-01-15 12:00' GROUP BY 1
SELECT u.country, e.action, COUNT(*) FROM users u JOIN events e ON u.user_id = e.user_id GROUP BY u.country, e.action
SELECT country, COUNT(*) FROM events JOIN users USING (user_id) GROUP BY country
SELECT a.topic, COUNT(DISTINCT e.user_id) FROM events e JOIN articles a ON a.article_id = e.article_id GROUP BY a.topic
SELECT a.title, COUNT(*) FROM events e, articles a WHERE a.article_id = e.article_id AND a.topic = 'law' GROUP BY a.title
SELECT a.topic, COUNT(*) FROM events e, articles a, users u WHERE e.article_id = a.article_id AND e.user_id = u.user_id AND u.country = 'US' GROUP BY a.topic
SELECT t.tag, COUNT(DISTINCT e.user_id) FROM events e JOIN tags t USING (article_id) GROUP BY t.tag
SELECT t.tag, COUNT(*) FROM events e JOIN tags t ON t.article_id = e.article_id GROUP BY t.tag
SELECT topic, COUNT(DISTINCT user_id) FROM events NATURAL JOIN articles GROUP BY topic
SELECT u.country, COUNT(DISTINCT e.user_id), COUNT(*) FROM users u LEFT JOIN events e ON e.user_id = u.user_id AND e.action = 'share' GROUP BY 1
SELECT a.topic, COUNT(*) FROM events e LEFT JOIN articles a ON a.article_id = e.article_id AND a.topic <> 'ai' GROUP BY 1
SELECT article_id, COUNT(*) FROM events WHERE article_id IN (SELECT article_id FROM articles WHERE topic = 'food') GROUP BY 1
SELECT COUNT(*) FROM users WHERE user_id IN (SELECT user_id FROM events WHERE action = 'share')
SELECT COUNT(*) FROM users WHERE user_id NOT IN (SELECT user_id FROM events WHERE action = 'like' AND user_id IS NOT NULL)
SELECT country, COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.user_id AND e.amount > 90) GROUP BY country
SELECT COUNT(*) FROM users u WHERE NOT EXISTS (SELECT * FROM events e JOIN articles a USING (article_id) WHERE a.topic = 'ai' AND e.user_id = u.user_id)
SELECT country, COUNT(DISTINCT user_id) FROM (SELECT user_id, country FROM users WHERE birth_year > 1980) t GROUP BY country
WITH e2 AS (SELECT user_id AS u, action AS act FROM events WHERE amount > 20) SELECT act, COUNT(DISTINCT u) AS n FROM e2 GROUP BY act
WITH active AS (SELECT DISTINCT user_id FROM events WHERE action = 'like') SELECT COUNT(*) FROM active
SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) AS c FROM events WHERE user_id <= 120 GROUP BY user_id HAVING COUNT(*) >= 5) t
SELECT COUNT(*) FROM users u JOIN (SELECT user_id, MAX(amount) AS top FROM events GROUP BY user_id) t ON t.user_id = u.user_id WHERE t.top > 80
SELECT c > 10 AS busy, COUNT(*) FROM (SELECT user_id, COUNT(DISTINCT article_id) AS c FROM events WHERE user_id <= 120 GROUP BY 1) t GROUP BY 1
SELECT job_title, COUNT(*) FROM users GROUP BY job_title ORDER BY 2 DESC LIMIT 100
SELECT quantity * 2 AS q, COUNT(DISTINCT user_id) FROM events WHERE quantity < 100 GROUP BY 1 ORDER BY 2 DESC LIMIT 100
SELECT c, COUNT(*) FROM (SELECT user_id, COUNT(*) AS c FROM events WHERE user_id <= 120 GROUP BY user_id) t GROUP BY c ORDER BY 2 DESC LIMIT 100
SELECT round(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct, action FROM events GROUP BY action
SELECT * FROM (SELECT country, COUNT(*) AS n FROM users WHERE country IN ('US', 'DE', 'FR') GROUP BY 1) t JOIN articles a ON a.article_id = 1 ORDER BY n DESC LIMIT 2
SELECT action, COUNT(*) AS n, rank() OVER (ORDER BY COUNT(*) DESC) FROM events GROUP BY action
WITH n AS (SELECT action, COUNT(*) AS c FROM events GROUP BY action) SELECT x.action, y.action, x.c - y.c FROM n x JOIN n y ON x.c > y.c
SELECT (SELECT COUNT(*) FROM users) AS users, (SELECT COUNT(*) FROM events WHERE user_id <= 120) AS events
SELECT 'events' AS what, COUNT(*) FROM events WHERE user_id <= 120 UNION ALL SELECT 'users', COUNT(*) FROM users ORDER BY 1
SELECT COUNT(*) FROM users WHERE country NOT IN ('US', 'DE') AND birth_year NOT BETWEEN 1950 AND 1960 AND char_length(job_title) > 4
SELECT COUNT(*) FROM users WHERE substring(job_title FROM 2 FOR 3) = 'hef' AND NOT country IN ('US') AND length(job_title) = 4
SELECT u.country, COUNT(*) FROM events e LEFT JOIN users u ON u.user_id = e.user_id AND e.action = 'share' GROUP BY u.country
SELECT u.user_id IS NULL AS none, COUNT(*) FROM events e LEFT JOIN users u ON u.user_id = e.user_id AND e.action = 'share' GROUP BY 1
SELECT a.topic, COUNT(*) FROM users u JOIN events e ON e.user_id = u.user_id LEFT JOIN articles a ON a.article_id = u.birth_year - 1935 AND e.action = 'share' GROUP BY a.topic
SELECT COUNT(*) FROM (SELECT user_id, 3 AS three, COUNT(*) AS n FROM events WHERE user_id <= 120 GROUP BY user_id) t WHERE n > three
SELECT c, COUNT(*) FROM (SELECT user_id, COUNT(*), COUNT(amount) FROM events WHERE user_id <= 120 GROUP BY user_id) t(u, b, c) WHERE c < 5 GROUP BY c ORDER BY 2 DESC LIMIT 100
WITH a AS (SELECT user_id FROM users), b AS (SELECT * FROM a) SELECT n FROM (WITH a AS (SELECT user_id FROM events) SELECT COUNT(*) AS n FROM b) t
WITH p AS (WITH q AS (SELECT user_id FROM users) SELECT user_id FROM q) SELECT COUNT(*) FROM p x JOIN p y ON x.user_id = y.user_id
WITH _r0 AS (SELECT 5 AS c0) SELECT n, c0 FROM (SELECT COUNT(*) AS n FROM users) t, _r0
SELECT b, COUNT(*) FROM (SELECT * FROM users JOIN events USING (user_id)) t(a, b) GROUP BY b
SELECT COUNT(*) FROM users WHERE substring(job_title, 0, 3) = 'En' OR substring(job_title, -1, 3) = 'C' OR substring(job_title, -5) = 'Chef'
SELECT COUNT(*) FROM users WHERE floor(birth_year) / 10 = 197.5 OR birth_year > 1990.5 OR CAST(birth_year AS numeric) / 3 = 650
SELECT COUNT(*) FROM users WHERE user_id > 0.00000000000000000000000000000000001
SELECT u.signup_date < '2024-02-01' AS early, date_trunc('year', u.signup_date) AS y, COUNT(*) FROM events e LEFT JOIN users u ON u.user_id = e.user_id AND e.article_id < 3 GROUP BY 1, 2
SELECT date_trunc('month', e.ts) AS m, COUNT(*) FROM users u LEFT JOIN events e ON e.user_id = u.user_id AND e.user_id = 7 GROUP BY 1
SELECT COUNT(*) FROM users u JOIN (SELECT * FROM events WHERE user_id IN (SELECT user_id FROM users WHERE birth_year > 1970)) e ON e.user_id = u.user_id
