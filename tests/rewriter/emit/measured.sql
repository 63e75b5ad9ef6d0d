SELECT SUM(amount), AVG(amount), COUNT(amount), STDDEV(amount), VAR_POP(amount), STDDEV_POP(amount), VAR_SAMP(amount), STDDEV_SAMP(amount) FROM events
SELECT action, VARIANCE(amount) FROM events GROUP BY action
SELECT SUM(amount) FROM events WHERE action = 'like'
SELECT action, SUM(amount), COUNT(*) FROM events GROUP BY action
SELECT country, SUM(amount) AS s, AVG(amount), AVG(birth_year), COUNT(DISTINCT user_id) FROM events JOIN users USING (user_id) GROUP BY country ORDER BY s DESC
SELECT SUM(birth_year), AVG(birth_year), VAR_POP(birth_year) FROM users
SELECT SUM(0.5 * amount), SUM(-amount), SUM(amount * (1 - 0.75)), AVG(2 * amount), VAR_POP(-2 * amount) FROM events
SELECT SUM(CASE WHEN action = 'like' THEN amount ELSE 0 END), SUM(amount) FILTER (WHERE action = 'like') FROM events
SELECT action, SUM(CASE WHEN amount > 50 THEN 1 ELSE 0 END), SUM(CASE WHEN amount > 50 THEN 3 END), COUNT(*) FILTER (WHERE amount > 50) FROM events GROUP BY action
SELECT SUM(LEAST(GREATEST(quantity, 0), 3)) FROM events
SELECT SUM(quantity), COUNT(*) FROM events
SELECT SUM(quantity) FROM events WHERE quantity BETWEEN -7 AND 5
SELECT SUM(amount + birth_year), AVG(amount * 2 + 1) FROM events JOIN users USING (user_id)
SELECT SUM(amount) * 2 + COUNT(*) AS x, round(CAST(AVG(amount) AS numeric), 2) FROM events
SELECT job_title, AVG(birth_year) FROM users GROUP BY job_title
SELECT job_title, COUNT(*) AS n, SUM(birth_year) FROM users GROUP BY job_title HAVING SUM(birth_year) > 100 ORDER BY n DESC LIMIT 50
SELECT action FROM events GROUP BY action HAVING AVG(amount) > 1 ORDER BY SUM(amount)
SELECT COUNT(DISTINCT article_id), COUNT(DISTINCT device), COUNT(DISTINCT amount) FROM events
SELECT COUNT(DISTINCT (action, device)), COUNT(DISTINCT article_id) FILTER (WHERE amount > 90) FROM events
SELECT COUNT(DISTINCT (user_id, article_id)), COUNT(DISTINCT CASE WHEN amount > 50 THEN article_id END) FROM events
SELECT country, COUNT(DISTINCT article_id) FROM events JOIN users USING (user_id) GROUP BY country
SELECT action, COUNT(DISTINCT date_trunc('week', ts)) FROM events GROUP BY action
SELECT COUNT(DISTINCT 'of which more than the first sixty-four characters say how long it is: ' || device) FROM events
SELECT DISTINCT job_title FROM users
SELECT DISTINCT job_title AS j, birth_year / 10 AS d FROM users ORDER BY 1, 2
SELECT quantity, device FROM events GROUP BY quantity, device
SELECT job_title FROM users WHERE country = 'US' GROUP BY job_title ORDER BY job_title
SELECT DISTINCT action, date_trunc('month', ts) FROM events
SELECT 1 AS one, title, COUNT(*) AS c FROM events JOIN articles USING (article_id) GROUP BY 1, title ORDER BY c DESC
SELECT country, action, COUNT(*), GROUPING(country), GROUPING(action, country) FROM users JOIN events USING (user_id) GROUP BY ROLLUP (country, action)
SELECT country, action, SUM(amount) FROM users JOIN events USING (user_id) GROUP BY CUBE (country, action)
SELECT COUNT(*), country FROM users GROUP BY GROUPING SETS ((country), (birth_year / 10), ())
SELECT action, article_id, COUNT(*) FROM events GROUP BY action, ROLLUP (article_id) HAVING COUNT(*) > 0
SELECT action, quantity, COUNT(DISTINCT user_id) FROM events GROUP BY DISTINCT ROLLUP (action, quantity), ROLLUP (action) HAVING GROUPING(action) = 0
SELECT upper(country) AS c, COUNT(*) FROM users GROUP BY GROUPING SETS ((upper(country)), ())
SELECT device, ts::date AS day, SUM(COUNT(*)) OVER (PARTITION BY device ORDER BY ts::date) FROM events GROUP BY 1, 2
SELECT quantity, date_trunc('week', ts) AS w, SUM(COUNT(*)) OVER (PARTITION BY quantity ORDER BY date_trunc('week', ts) ROWS UNBOUNDED PRECEDING) AS r FROM events GROUP BY 1, 2
SELECT action, birth_year / 10 AS d, SUM(amount) FROM events JOIN users USING (user_id) WHERE amount BETWEEN 0 AND 50 GROUP BY 1, 2
SELECT COUNT(*) FROM events GROUP BY ()
SELECT AVG(n), SUM(n) FROM (SELECT action, COUNT(*) AS n FROM events GROUP BY action) t
SELECT MAX(s) - MIN(s) AS spread FROM (SELECT country, AVG(birth_year) AS s FROM users WHERE country IN ('US', 'DE') GROUP BY country) t
SELECT COUNT(DISTINCT (user_id, device)), COUNT(DISTINCT (user_id, user_id)), COUNT(DISTINCT (device, quantity)) FILTER (WHERE amount > 1) FROM events
SELECT COUNT(DISTINCT (e.user_id, u.user_id)), COUNT(DISTINCT u.user_id) FROM events e LEFT JOIN users u ON u.user_id = e.user_id AND e.action = 'share'
SELECT u.country, SUM(LEAST((SELECT COUNT(*) FROM events e WHERE e.user_id = u.user_id), 10)) FROM users u GROUP BY 1
SELECT AVG(n) FROM (SELECT u.user_id, (SELECT COUNT(*) FROM events e WHERE e.user_id = u.user_id) AS n FROM users u) t WHERE n <= 100
