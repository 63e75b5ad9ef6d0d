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
SELECT ((floor(((amount - 0.0) / 10.0)) * 10.0) + 0.0) AS bin, COUNT(*) FROM events GROUP BY ((floor(((amount - 0.0) / 10.0)) * 10.0) + 0.0) ORDER BY 1
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
SELECT kind, COUNT(*) FROM (SELECT user_id, 'view' AS kind FROM events WHERE action = 'view' AND user_id <= 120 UNION ALL SELECT user_id, 'signup' FROM users) t GROUP BY kind
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id FROM events WHERE action = 'view' INTERSECT SELECT user_id FROM events WHERE action = 'share') t
SELECT COUNT(*) FROM (SELECT user_id FROM users EXCEPT SELECT user_id FROM events WHERE action = 'like' AND user_id IS NOT NULL) t
SELECT COUNT(*), COUNT(DISTINCT user_id) FROM (SELECT user_id, action FROM events WHERE user_id <= 120 UNION SELECT user_id, country FROM users) t
SELECT COUNT(*) FROM (SELECT user_id, action FROM events WHERE user_id <= 120 EXCEPT ALL SELECT user_id, 'view' FROM users) t
SELECT country, COUNT(DISTINCT user_id) FROM (SELECT user_id, country FROM users UNION ALL SELECT user_id, job_title FROM users) t(user_id, country) GROUP BY country ORDER BY 2 DESC LIMIT 100
SELECT COUNT(*) FROM (SELECT user_id FROM users UNION ALL SELECT user_id FROM users UNION ALL SELECT user_id FROM users) t
WITH b(u, n) AS (SELECT user_id, COUNT(*) FROM events WHERE user_id <= 120 GROUP BY user_id) SELECT COUNT(*) FROM b WHERE n > 2 AND u > 7
SELECT n, COUNT(*) FROM (SELECT user_id, birth_year AS n FROM users UNION ALL SELECT user_id, 0.5 FROM users WHERE country = 'US') t GROUP BY n ORDER BY 2 DESC LIMIT 1000
SELECT rn, COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS rn FROM events WHERE user_id <= 120) t WHERE rn <= 3 GROUP BY rn
SELECT device, COUNT(*) FROM (SELECT user_id, device, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts DESC, event_id) AS rn FROM events WHERE user_id <= 120) t WHERE rn = 1 GROUP BY device ORDER BY 2 DESC LIMIT 100
SELECT COUNT(*) FROM (SELECT user_id, RANK() OVER (PARTITION BY user_id ORDER BY article_id) AS r, DENSE_RANK() OVER (PARTITION BY user_id ORDER BY article_id DESC) AS d FROM events WHERE user_id <= 120) t WHERE r > d
SELECT COUNT(*) FROM (SELECT user_id, ts, LAG(ts) OVER (PARTITION BY user_id ORDER BY ts) AS p, LEAD(action, 2) OVER (PARTITION BY user_id ORDER BY ts, event_id) AS a FROM events WHERE user_id <= 120) t WHERE p < '2024-02-01' AND a = 'like'
SELECT COUNT(*) FROM (SELECT user_id, FIRST_VALUE(action) OVER (PARTITION BY user_id ORDER BY ts) AS f, LAST_VALUE(action) OVER (PARTITION BY user_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM events WHERE user_id <= 120) t WHERE f = l
SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) OVER (PARTITION BY user_id) AS n, SUM(quantity) OVER (PARTITION BY user_id, action ORDER BY ts) AS s, AVG(article_id) OVER (PARTITION BY user_id) AS m FROM events WHERE user_id <= 120) t WHERE n > 3 AND s > 5 AND m > 8
SELECT COUNT(*) FROM (SELECT user_id, amount, SUM(amount) OVER (PARTITION BY user_id ORDER BY ts, event_id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s, MAX(amount) OVER (PARTITION BY user_id) AS m FROM events WHERE user_id <= 120) t WHERE s > 100.5 AND amount = m
SELECT COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) * 2 + article_id AS x, NTILE(4) OVER (PARTITION BY user_id ORDER BY ts, event_id) AS q FROM events WHERE user_id <= 120) t WHERE x > 20 AND q = 2
SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS rn FROM events WHERE user_id <= 120) t WHERE rn = 2 AND action = 'view'
SELECT COUNT(*) FROM (SELECT user_id, action, COUNT(*) AS n, RANK() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC) AS r FROM events WHERE user_id <= 120 GROUP BY user_id, action) t WHERE r = 1 AND n > 1
SELECT action, COUNT(*) FROM (SELECT DISTINCT ON (user_id) user_id, action FROM events WHERE user_id <= 120 ORDER BY user_id, ts DESC) t GROUP BY action
SELECT action, COUNT(*) FROM (SELECT DISTINCT ON (user_id, device) user_id, action, device FROM events WHERE user_id <= 120 ORDER BY user_id, 3, ts) t GROUP BY action
SELECT COUNT(*) FROM (SELECT user_id, SUM(amount) AS s, AVG(amount) AS a, MIN(ts) AS f, bool_or(action = 'share') AS b, bool_and(amount > 0) AS c FROM events WHERE user_id <= 120 GROUP BY user_id) t WHERE (s > 100 AND b) OR c
SELECT COUNT(*) FROM (SELECT user_id, STDDEV(amount) AS d, VAR_POP(quantity) AS v, STDDEV_POP(article_id) AS p FROM events WHERE user_id <= 120 AND abs(quantity) < 100 GROUP BY user_id) t WHERE d > 20 AND p > 3.5 OR v > 1
SELECT COUNT(*) FROM (SELECT user_id, SUM(quantity) AS s, SUM(event_id) AS e, AVG(article_id) AS a FROM events WHERE user_id <= 120 GROUP BY user_id HAVING COUNT(*) FILTER (WHERE action = 'view') > 1 AND MAX(amount) - MIN(amount) > 10) t WHERE s / 2 > 3 AND e > 1000 AND a < 12.5
SELECT COUNT(*) FROM (SELECT user_id, COUNT(DISTINCT device) AS d, COUNT(DISTINCT article_id) * 10 / COUNT(*) AS r FROM events WHERE user_id <= 120 GROUP BY user_id) t WHERE d = 3 AND r >= 5
SELECT COUNT(*) FROM (SELECT MAX(amount) AS m FROM events WHERE user_id <= 120 GROUP BY user_id, action) t WHERE m > 50
SELECT n, COUNT(*) FROM (SELECT COUNT(*) AS n FROM events WHERE user_id <= 120 GROUP BY user_id) t WHERE n BETWEEN 1 AND 8 GROUP BY n
SELECT m, COUNT(*) FROM (SELECT user_id, MAX(n) AS m FROM (SELECT user_id, action, COUNT(*) AS n FROM events WHERE user_id <= 120 GROUP BY user_id, action) x GROUP BY user_id) t GROUP BY m ORDER BY 2 DESC LIMIT 100
SELECT COUNT(*) FROM (SELECT user_id, upper(action) AS a, length(action) + COUNT(*) AS n FROM events WHERE user_id <= 120 GROUP BY user_id, action ORDER BY n) t WHERE a = 'VIEW' AND n > 6
SELECT u.country, COUNT(*) FROM (SELECT * FROM events WHERE amount > 20) e RIGHT JOIN users u ON u.user_id = e.user_id GROUP BY u.country
SELECT COUNT(*) FROM users u LEFT JOIN (SELECT user_id, COUNT(*) AS n, 1 AS one FROM events WHERE action = 'share' GROUP BY user_id) s ON s.user_id = u.user_id WHERE s.one IS NULL OR s.n > 2
SELECT COUNT(*), COUNT(s.x) FROM users u LEFT JOIN (SELECT user_id, COALESCE(device, 'none') AS x FROM events) s USING (user_id)
SELECT COUNT(*), COUNT(DISTINCT user_id), COUNT(a.job_title), COUNT(b.action) FROM (SELECT * FROM users WHERE country = 'US') a FULL JOIN (SELECT * FROM events WHERE user_id <= 120 AND amount > 50) b USING (user_id)
SELECT COUNT(DISTINCT COALESCE(a.user_id, b.user_id)), COUNT(a.user_id) FROM (SELECT user_id, 'x' AS t FROM users WHERE country = 'DE') a FULL JOIN (SELECT user_id, MIN(action) AS m FROM events WHERE user_id <= 120 GROUP BY 1) b ON a.user_id = b.user_id
SELECT a.topic, COUNT(e.event_id), COUNT(DISTINCT e.user_id) FROM articles a LEFT JOIN events e ON e.article_id = a.article_id AND e.user_id <= 120 GROUP BY a.topic
SELECT a.topic, COUNT(e.event_id) FROM events e RIGHT JOIN articles a ON e.article_id = a.article_id AND a.topic <> 'law' AND e.user_id <= 120 GROUP BY a.topic
SELECT a.topic, COUNT(e.event_id), SUM(CASE WHEN e.action = 'like' THEN 1 ELSE 0 END) FROM (SELECT * FROM articles WHERE article_id < 15) a LEFT JOIN (SELECT * FROM events WHERE user_id <= 120) e ON e.article_id = a.article_id WHERE a.topic <> 'ai' GROUP BY a.topic HAVING COUNT(e.event_id) > 3
SELECT a.topic, COUNT(DISTINCT u.user_id) FROM articles a LEFT JOIN events e ON e.article_id = a.article_id LEFT JOIN users u ON u.user_id = e.user_id AND u.country = 'US' GROUP BY a.topic
SELECT COUNT(*) FROM (users u JOIN events e ON u.user_id = e.user_id) JOIN articles a ON a.article_id = e.article_id WHERE a.topic = 'law'
SELECT x.topic, COUNT(*) FROM events e JOIN (SELECT article_id AS id, topic FROM articles WHERE topic <> 'ai') x ON x.id = e.article_id WHERE e.user_id <= 120 GROUP BY x.topic
WITH law AS (SELECT article_id FROM articles WHERE topic = 'law') SELECT COUNT(*) FROM events JOIN law USING (article_id) WHERE user_id <= 120
SELECT a.topic, COUNT(DISTINCT u.user_id) FROM users u CROSS JOIN articles a GROUP BY a.topic
SELECT COUNT(*) FROM events e WHERE e.user_id <= 120 AND EXISTS (SELECT 1 FROM articles a WHERE a.article_id = e.article_id AND a.topic = 'law')
SELECT COUNT(*) FROM events e WHERE e.user_id <= 120 AND NOT EXISTS (SELECT 1 FROM articles a JOIN tags t USING (article_id) WHERE a.article_id = e.article_id AND t.tag = 'x')
SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.user_id AND e.quantity < u.birth_year AND e.amount > 50)
SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM events e JOIN articles a ON a.article_id = e.article_id WHERE e.user_id = u.user_id AND a.topic = 'ai')
SELECT COUNT(*) FROM users u WHERE u.birth_year - 1940 IN (SELECT e.article_id FROM events e WHERE e.user_id = u.user_id)
SELECT COUNT(*) FROM users u WHERE u.birth_year - 1940 NOT IN (SELECT e.article_id FROM events e WHERE e.user_id = u.user_id)
SELECT COUNT(*) FROM events e WHERE (e.user_id, e.action) IN (SELECT user_id, 'view' FROM users WHERE country = 'US')
SELECT COUNT(*) FROM events e WHERE e.user_id <= 120 AND (e.user_id, e.action) NOT IN (SELECT user_id, country FROM users)
SELECT COUNT(*) FROM events WHERE user_id <= 120 AND (article_id, action) IN ((1, 'view'), (2, 'like'))
SELECT COUNT(*) FROM events WHERE user_id <= 120 AND article_id IN (VALUES (1), (2))
SELECT COUNT(*) FROM users WHERE user_id IN (SELECT user_id FROM events WHERE user_id IS NOT NULL GROUP BY user_id HAVING COUNT(*) > 5)
SELECT COUNT(*) FROM events WHERE user_id <= 120 AND article_id NOT IN (SELECT article_id FROM tags WHERE tag = 'x')
SELECT COUNT(*) FROM (SELECT user_id, SUM(s) AS t FROM (SELECT user_id, action, SUM(amount) AS s FROM events WHERE user_id <= 120 GROUP BY 1, 2) q GROUP BY user_id) r WHERE t > 200
SELECT COUNT(*) FROM users JOIN (SELECT user_id, MIN(ts) AS first FROM events GROUP BY user_id) f USING (user_id) WHERE first < '2024-01-15'
SELECT country, COUNT(*) FROM users u LEFT JOIN events e ON e.user_id = u.user_id AND e.amount > 10 LEFT JOIN articles a ON a.article_id = e.article_id WHERE a.topic IS NULL GROUP BY country
SELECT COUNT(*) FROM (SELECT DISTINCT user_id, date_trunc('month', ts) AS m FROM events WHERE user_id <= 120) t
SELECT COUNT(*) FROM (SELECT user_id FROM events WHERE user_id <= 120 GROUP BY user_id, ts::date HAVING COUNT(*) > 1) t
SELECT COUNT(*) FROM users u WHERE u.user_id = ANY (SELECT user_id FROM events WHERE action = 'share')
SELECT COUNT(*) FROM users u WHERE u.user_id <> ALL (SELECT user_id FROM events WHERE action = 'share' AND user_id IS NOT NULL)
SELECT COUNT(*) FROM events WHERE user_id <= 120 AND article_id = ANY (SELECT article_id FROM articles WHERE topic = 'law')
SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM articles a WHERE a.article_id + 1 = u.user_id / 2 + 1.5)
SELECT COUNT(*) FROM events e WHERE user_id <= 120 AND EXISTS (SELECT 1 FROM tags t WHERE t.article_id = e.article_id AND t.tag = substring(e.action, 1, 1) || '')
SELECT COUNT(*) FROM users u JOIN (SELECT user_id, SUM(amount) AS s, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY SUM(amount) DESC) AS r FROM events WHERE user_id <= 120 GROUP BY user_id, action) t USING (user_id) WHERE r = 1 AND s > 50
SELECT COUNT(*) FROM (users a FULL JOIN (SELECT * FROM events WHERE user_id <= 120) b USING (user_id)) FULL JOIN users c USING (user_id)
SELECT COUNT(*) FROM (users a FULL JOIN (SELECT * FROM events WHERE user_id <= 120) b ON a.user_id = b.user_id) JOIN users c ON c.user_id = a.user_id
SELECT COUNT(*) FROM (SELECT country, user_id FROM users EXCEPT SELECT device, user_id FROM events) t
SELECT topic, COUNT(*) FROM (SELECT DISTINCT e.user_id, a.topic FROM events e LEFT JOIN articles a ON a.article_id = e.article_id AND e.amount > 20 WHERE e.user_id <= 120) t GROUP BY topic
SELECT COUNT(*) FROM (SELECT DISTINCT user_id, COUNT(*) OVER (PARTITION BY user_id) AS n FROM events WHERE user_id <= 120) t WHERE n > 3
SELECT COUNT(*) FROM (SELECT DISTINCT user_id, action FROM (SELECT user_id, action FROM events WHERE user_id <= 120 UNION ALL SELECT user_id, country FROM users) x) t
SELECT n, COUNT(*) FROM (SELECT user_id, COUNT(*) FILTER (WHERE action = 'like') AS n FROM events WHERE user_id <= 120 GROUP BY user_id) t WHERE n < 5 GROUP BY n
SELECT COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts, event_id) AS r FROM events WHERE user_id <= 120) a JOIN (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts DESC, event_id DESC) AS r FROM events WHERE user_id <= 120) b ON a.r = b.r AND a.user_id = b.user_id
SELECT article_id, COUNT(user_id) FROM (SELECT * FROM events WHERE user_id <= 120) e RIGHT JOIN articles a USING (article_id) GROUP BY article_id
SELECT width_bucket(amount, 0, 100, 4), COUNT(*) FROM events GROUP BY 1
SELECT to_char(ts, 'YYYY-MM'), COUNT(DISTINCT user_id) FROM events GROUP BY 1
SELECT round(amount), COUNT(*) FROM events WHERE device ~ '^(tv|p.*e)$' GROUP BY 1 ORDER BY 2 DESC LIMIT 1000
SELECT ts::date - signup_date > 100, COUNT(*) FROM events JOIN users USING (user_id) GROUP BY 1
SELECT date_part('hour', ts) AS h, COUNT(*) FROM events GROUP BY h ORDER BY 1
SELECT date_part('year', ts) AS y, date_part('month', ts) AS m, COUNT(*) FROM events GROUP BY date_part('year', ts), date_part('month', ts)
SELECT COUNT(*) FROM events WHERE action LIKE 'l!%' ESCAPE '!' OR date_part('dow', ts) IN (0, 6)
SELECT COUNT(*) FROM events WHERE action NOT LIKE 'l%' ESCAPE '!'
SELECT COUNT(*) FROM events WHERE action LIKE 'l%' ESCAPE '!'
SELECT COUNT(*) FROM users WHERE (birth_year > 1980) IS UNKNOWN OR country = $$DE$$ OR job_title = E'\x6bing'
SELECT round(birth_year, -1) AS decade, COUNT(*) FROM users WHERE birth_year BETWEEN 1950 AND 1999 GROUP BY 1
SELECT COUNT(*) FROM users WHERE char_length(job_title) = length(job_title) AND mod(birth_year, 2) = 0 AND birth_year % 3 = 0
SELECT country, COUNT(*) FROM users u WHERE (SELECT COUNT(*) FROM events e WHERE e.user_id = u.user_id) > 3 GROUP BY country
SELECT e.action, COUNT(*) FROM events e WHERE e.amount > (SELECT AVG(e2.amount) FROM events e2 WHERE e2.user_id = e.user_id) GROUP BY 1
SELECT (SELECT topic FROM articles a WHERE a.article_id = e.article_id) AS topic, COUNT(*) FROM events e GROUP BY 1
SELECT COUNT(*) FROM events e WHERE (SELECT topic FROM articles a WHERE a.article_id = e.article_id) = 'tech'
SELECT (SELECT country FROM users u WHERE u.user_id = e.user_id) AS country, COUNT(*) FROM events e GROUP BY 1
SELECT COUNT(*), COUNT(DISTINCT user_id) FROM (SELECT u.user_id, (SELECT COUNT(*) FROM events e WHERE e.user_id = u.user_id AND e.action = 'like') AS n FROM users u) t WHERE n <= 2
SELECT CASE WHEN (SELECT COUNT(*) FROM events e WHERE e.user_id = u.user_id) > 2 THEN 'many' ELSE 'few' END AS c, COUNT(*) FROM users u GROUP BY 1
SELECT COUNT(*) FROM users u WHERE (SELECT MAX(e.amount) - MIN(e.amount) FROM events e WHERE e.user_id = u.user_id) > 10 OR (SELECT COUNT(DISTINCT action) + 1 FROM events e WHERE u.user_id = e.user_id) = 1
SELECT COUNT(*) FILTER (WHERE (SELECT COUNT(*) FROM events e JOIN articles a USING (article_id) WHERE e.user_id = u.user_id AND a.topic = 'tech') > 0) FROM users u
SELECT COUNT(*) FROM events e WHERE e.ts = (SELECT MIN(f.ts) FROM events f WHERE f.user_id = e.user_id)
SELECT (SELECT COUNT(*) FROM events e WHERE e.user_id = u.user_id) AS n, COUNT(*) FROM users u WHERE (SELECT COUNT(*) FROM events e WHERE e.user_id = u.user_id) BETWEEN 1 AND 3 GROUP BY (SELECT COUNT(*) FROM events e WHERE e.user_id = u.user_id) ORDER BY 1
SELECT COUNT(*) FROM users u, users v WHERE u.user_id = v.user_id AND (SELECT COUNT(*) FROM events e WHERE e.user_id = v.user_id) > 3
SELECT kind, COUNT(DISTINCT user_id) FROM (SELECT user_id, CASE COUNT(*) WHEN 1 THEN 'once' ELSE 'more' END AS kind FROM events GROUP BY user_id) AS t GROUP BY kind
SELECT y, COUNT(DISTINCT user_id) FROM (SELECT user_id, date_part('year', MAX(ts)) AS y FROM events GROUP BY user_id) AS t GROUP BY y ORDER BY 2 DESC
SELECT COUNT(*) FROM (SELECT user_id FROM events GROUP BY user_id HAVING COUNT(*) = ANY (ARRAY[1, 2, 5]) AND COUNT(*) BETWEEN SYMMETRIC 4 AND 1) AS t
SELECT w, COUNT(DISTINCT user_id) FROM (SELECT user_id, CASE ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) WHEN 1 THEN 'first' WHEN 2 THEN action ELSE 'later' END AS w FROM events) AS t GROUP BY w ORDER BY 2 DESC
SELECT w, COUNT(DISTINCT user_id) FROM (SELECT user_id, CASE WHEN ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) = 1 THEN 'first' WHEN action = 'view' THEN 'view' END AS w FROM events) AS t GROUP BY w ORDER BY 2 DESC
SELECT h, COUNT(DISTINCT user_id) FROM (SELECT user_id, date_part('hour', LAG(ts) OVER (PARTITION BY user_id ORDER BY ts)) AS h FROM events) AS t GROUP BY h ORDER BY 2 DESC
SELECT n, COUNT(DISTINCT user_id) FROM (SELECT user_id, 1 AS one, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) = ANY (ARRAY[1, 3]) AS n FROM events) AS t WHERE one = 1 GROUP BY n
WITH w AS (SELECT e.user_id, e.device AS d FROM events e WHERE (SELECT MAX(i.birth_year) FROM users i WHERE i.user_id = e.user_id AND i.country = 'US') > 1950) SELECT COUNT(DISTINCT t.user_id) FROM w t JOIN w u USING (user_id) WHERE t.d LIKE '%h%'
SELECT a.article_id, a.title, COUNT(DISTINCT e.user_id) FROM events e JOIN articles a ON a.article_id = e.article_id GROUP BY a.article_id ORDER BY a.topic, 1
SELECT upper(a.title) AS shown, COUNT(DISTINCT user_id) AS n FROM events e JOIN articles a ON a.article_id = e.article_id GROUP BY a.article_id HAVING a.topic <> 'ai' ORDER BY n, shown
SELECT a.article_id, rank() OVER (PARTITION BY a.topic ORDER BY COUNT(DISTINCT e.user_id) DESC), COUNT(DISTINCT e.user_id) FROM events e JOIN articles a ON a.article_id = e.article_id GROUP BY a.article_id
SELECT COUNT(DISTINCT user_id), (SELECT max(title) FROM articles) FROM users
SELECT country, COUNT(DISTINCT user_id), (SELECT COUNT(*) FROM articles) FROM users GROUP BY country ORDER BY (SELECT 1), 2
SELECT COUNT(*) FROM (SELECT user_id, row_number() OVER w AS k, sum(quantity) OVER w AS n FROM events WINDOW w AS (PARTITION BY user_id ORDER BY ts, event_id)) t WHERE k = 2 AND n > 1
SELECT COUNT(*) FROM (SELECT user_id, every(quantity > 1) AS e FROM events GROUP BY user_id) t WHERE e
SELECT COUNT(*) FROM users WHERE (birth_year, country) > (1970, 'FR')
SELECT COUNT(*) FROM users WHERE NOT (country, birth_year, job_title) <= ('FR', 1980, 'Chef') AND (country, job_title) <> ('DE', 'King')
SELECT COUNT(*) FROM events WHERE (EXTRACT(year FROM ts), EXTRACT(month FROM ts)) >= (2024, 2) OR (action, quantity) = ('like', 1)
SELECT COUNT(*) FROM events WHERE ts::time BETWEEN '08:00' AND '17:30:00'
SELECT COUNT(*) FROM (SELECT user_id, row_number() OVER ("W") AS k FROM events WINDOW "W" AS (PARTITION BY user_id ORDER BY ts, event_id)) t WHERE k = 2
SELECT COUNT(*) FILTER (WHERE (birth_year, country) >= (1980, 'FR')), COUNT(*) FROM users
SELECT e.action, COUNT(*) FROM users u JOIN events e ON (e.user_id, 2) = (u.user_id, 2) AND (u.birth_year, e.action) IN ((1980, 'like'), (1990, 'share')) GROUP BY 1
SELECT COUNT(*) FROM users WHERE (birth_year + 0.000000000000000000000000001) * (birth_year + 0.000000000000000000000000001) > 3900000
SELECT COUNT(*) FROM (SELECT user_id, LEAD(c2) OVER (PARTITION BY user_id ORDER BY action) AS x FROM (SELECT DISTINCT user_id, action, 'Nurse' AS c2 FROM events WHERE user_id <= 120) t) q WHERE x = 'Nurse'
