-- Statements as other people write them, by what a system like this one tends to lack (test_gaps.py compares the
-- answers with those of the bare database). Lines "-- == ... ==" begin a section; a comment belongs to the statement
-- below it. In the sections "Still refused" it begins with the code.

-- == Known domains come out whole ==

-- Every day of a year, counted by users and by rows.
SELECT placed::date AS day, COUNT(DISTINCT user_id) AS active, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

-- Weeks that begin on Sunday, and bins of numbers, as BI programs write them.
SELECT CAST(DATE_TRUNC('week', CAST((CAST(placed AS timestamp) + (INTERVAL '1 day')) AS timestamp)) AS timestamp)
+ (INTERVAL '-1 day') AS week, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

SELECT ((floor(((height::float - 0.0) / 20.0)) * 20.0) + 0.0) AS bin, COUNT(*) AS n FROM users GROUP BY 1 ORDER BY 1;

-- Weeks and months.
SELECT date_trunc('week', placed)::date AS week, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

SELECT to_char(placed, 'YYYY-MM') AS month, COUNT(DISTINCT user_id) AS active FROM orders GROUP BY 1 ORDER BY 1 DESC;

-- What stands above the days is computed from all of them.
SELECT SUM(n) AS total, AVG(n) AS mean, COUNT(*) AS days
FROM (SELECT placed::date AS day, COUNT(DISTINCT user_id) AS n FROM orders GROUP BY 1) AS d;

SELECT day, SUM(n) OVER (ORDER BY day) AS so_far
FROM (SELECT placed::date AS day, COUNT(*) AS n FROM orders GROUP BY 1) AS d ORDER BY day;

-- == Public columns and declared domains cut the groups ==

SELECT p.brand, COUNT(*) AS n FROM items i JOIN products p ON p.id = i.product_id WHERE p.manager = 1
GROUP BY p.brand ORDER BY p.brand;

-- The largest of them.
SELECT p.brand, SUM(i.quantity) AS sold FROM items i JOIN products p ON p.id = i.product_id WHERE p.manager = 2
GROUP BY p.brand ORDER BY sold DESC LIMIT 2;

-- Three of twenty countries are declared for users.
SELECT c.name, COUNT(*) AS n FROM users u JOIN countries c ON c.code = u.country GROUP BY c.name ORDER BY c.name;

SELECT c.name, COUNT(*) AS n FROM users u JOIN countries c ON c.code = u.country WHERE c.euro GROUP BY c.name ORDER BY
  1;

-- == Groups without an aggregate meet their WHERE ==

SELECT p.brand FROM items i JOIN products p ON p.id = i.product_id WHERE p.manager = 1 GROUP BY p.brand ORDER BY
  p.brand;

SELECT DISTINCT c.name FROM users u JOIN countries c ON c.code = u.country WHERE c.euro ORDER BY c.name;

-- == Different values of a small domain ==

SELECT COUNT(DISTINCT country) AS countries FROM users;

SELECT COUNT(DISTINCT status) AS statuses FROM orders WHERE status <> 'lost';

SELECT COUNT(DISTINCT p.brand) AS brands FROM items i JOIN products p ON p.id = i.product_id;

-- == First and last texts ==

SELECT MIN(country) AS first, MAX(country) AS last FROM users;

SELECT o.channel, MIN(u.country) AS first, MAX(DISTINCT o.channel) AS channels, COUNT(*) AS n
FROM orders o JOIN users u ON u.id = o.user_id GROUP BY o.channel HAVING MIN(u.country) < 'B' ORDER BY o.channel;

SELECT MAX(country) AS last FROM users WHERE height > 400;

SELECT c.name, MIN(u.country) AS first FROM countries c LEFT JOIN users u ON u.country = c.code GROUP BY c.name ORDER BY
  c.name;

-- == Averages that mean something ==

-- Of nobody: NULL.
SELECT AVG(rating) AS rating FROM orders WHERE user_id < 0;

-- Of groups that some have and some do not.
SELECT c.name, AVG(u.height) AS height FROM countries c LEFT JOIN users u ON u.country = c.code
GROUP BY c.name ORDER BY c.name;

-- The first by average.
SELECT p.brand, AVG(i.quantity) AS mean FROM items i JOIN products p ON p.id = i.product_id
GROUP BY p.brand ORDER BY ROUND(AVG(i.quantity)) DESC, p.brand LIMIT 3;

-- == Sums over many known groups ==

SELECT p.id, SUM(i.quantity) AS sold FROM items i JOIN products p ON p.id = i.product_id GROUP BY p.id ORDER BY p.id;

SELECT o.placed::date AS day, SUM(i.quantity) AS sold FROM items i JOIN orders o ON o.id = i.order_id
GROUP BY 1 ORDER BY 1;

-- == NULL is a value of a nullable domain ==

SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY channel;

SELECT COALESCE(channel, 'none') AS channel, COUNT(DISTINCT user_id) AS active FROM orders GROUP BY 1 ORDER BY 1;

-- == Joins with rows that read public tables only ==

-- Rolling seven days.
SELECT d.day::date AS day, COUNT(DISTINCT o.user_id) AS active
FROM generate_series('2024-03-01'::date, '2024-03-10'::date, '1 day') AS d(day)
JOIN orders o ON o.placed >= d.day - interval '6 days' AND o.placed < d.day + interval '1 day' GROUP BY 1 ORDER BY 1;

-- Counts up to each day of a calendar.
SELECT c.day, COUNT(o.id) AS so_far FROM calendar c LEFT JOIN orders o ON o.placed::date <= c.day
WHERE c.day < '2024-01-11' GROUP BY c.day ORDER BY c.day;

-- A grid of cohorts.
WITH months AS (SELECT date_trunc('month', day)::date AS month FROM calendar GROUP BY 1)
SELECT m.month, g.n, COUNT(DISTINCT o.user_id) AS active
FROM months m CROSS JOIN generate_series(0, 2) AS g(n)
JOIN users u ON date_trunc('month', u.joined)::date = m.month
JOIN orders o ON o.user_id = u.id AND EXTRACT(month FROM o.placed) = EXTRACT(month FROM m.month) + g.n
WHERE m.month < '2024-03-01' GROUP BY 1, 2 ORDER BY 1, 2;

-- Grouped, ranked and limited rows.
SELECT b.brand, COUNT(*) AS n FROM items i JOIN products p ON p.id = i.product_id
JOIN (SELECT brand, MAX(price) AS dearest FROM products GROUP BY brand ORDER BY 2 DESC LIMIT 3) b ON b.brand = p.brand
GROUP BY b.brand ORDER BY b.brand;

SELECT r.place, COUNT(*) AS n FROM items i
JOIN (SELECT id, RANK() OVER (ORDER BY price DESC) AS place FROM products) r ON r.id = i.product_id
WHERE r.place <= 3 GROUP BY r.place ORDER BY r.place;

-- Written rows and unions.
SELECT s.label, COUNT(*) AS n FROM orders o JOIN (VALUES (1, 2, 'bad'), (3, 3, 'fair'), (4, 5, 'good')) AS s(lo, hi,
  label)
ON o.rating BETWEEN s.lo AND s.hi GROUP BY s.label ORDER BY s.label;

SELECT t.kind, COUNT(*) AS n FROM users u
JOIN (SELECT code, 'euro' AS kind FROM countries WHERE euro UNION ALL SELECT code, 'any' FROM countries) t
ON t.code = u.country GROUP BY t.kind ORDER BY t.kind;

SELECT p.brand, COUNT(DISTINCT o.user_id) AS buyers FROM orders o, items i, products p,
  (SELECT code FROM (SELECT 'b' AS code UNION SELECT 'c'
    INTERSECT SELECT lower(substr(country, 1, 1)) FROM users GROUP BY country HAVING COUNT(*) > 10) A1) V1
WHERE i.order_id = o.id AND p.id = i.product_id AND substr(p.brand, 1, 1) = V1.code GROUP BY p.brand ORDER BY p.brand;

-- == Percentiles ==

SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY height) AS median FROM users;

SELECT country, PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY height) AS low FROM users GROUP BY country ORDER BY
  country;

-- == Many keys ==

SELECT u.country, EXTRACT(year FROM o.placed) AS year, o.channel, FLOOR(EXTRACT(year FROM u.born) / 10) * 10 AS decade,
  COUNT(*) AS n
FROM users u JOIN orders o ON o.user_id = u.id GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;

SELECT p.brand, u.country, EXTRACT(quarter FROM o.placed) AS quarter, o.status, COUNT(DISTINCT u.id) AS buyers
FROM users u JOIN orders o ON o.user_id = u.id JOIN items i ON i.order_id = o.id JOIN products p ON p.id = i.product_id
GROUP BY p.brand, u.country, 3, o.status ORDER BY 1, 2, 3, o.status::text;

-- == Joins on an event's key ==

-- By order and item.
SELECT COUNT(*) AS n FROM items i JOIN returns r ON r.order_id = i.order_id AND r.product_id = i.product_id;

SELECT p.brand, COUNT(r.id) AS returned, SUM(i.quantity) AS sold
FROM items i JOIN products p ON p.id = i.product_id
LEFT JOIN returns r ON r.order_id = i.order_id AND r.product_id = i.product_id GROUP BY p.brand ORDER BY p.brand;

SELECT COUNT(*) AS kept FROM orders o WHERE NOT EXISTS (SELECT 1 FROM returns r WHERE r.order_id = o.id);

SELECT COUNT(*) AS n FROM items WHERE order_id IN (SELECT order_id FROM returns);

-- == Tables with an id of their own ==

SELECT COUNT(DISTINCT o.user_id) AS people FROM returns r JOIN orders o ON o.id = r.order_id WHERE r.id > 20;

SELECT COUNT(*) AS even FROM returns WHERE id % 2 = 0;

SELECT COUNT(DISTINCT u.id) AS people FROM users u JOIN orders o ON o.user_id = u.id WHERE o.id < 2400;

-- == Columns that depend on a grouped key ==

SELECT p.id, p.brand, p.price, COUNT(*) AS n FROM items i JOIN products p ON p.id = i.product_id
GROUP BY p.id ORDER BY p.id;

SELECT c.name, c.euro, COUNT(*) AS n FROM users u JOIN countries c ON c.code = u.country
GROUP BY c.code ORDER BY c.code LIMIT 2;

-- == Bounds that nobody declared ==

SELECT AVG(EXTRACT(year FROM age(date '2025-01-01', born))) AS years FROM users;

SELECT AVG(EXTRACT(epoch FROM shipped - placed)) / 3600 AS hours FROM orders;

SELECT SUM(p.price * i.quantity) AS revenue, SUM(p.price) AS prices FROM items i JOIN products p ON p.id = i.product_id;

SELECT AVG(1.0 * rating / NULLIF(pieces, 0)) AS ratio, SUM(length(country)) AS letters
FROM orders o JOIN users u ON u.id = o.user_id;

-- == Subqueries over other units ==

SELECT COUNT(*) AS many FROM items i JOIN products p ON p.id = i.product_id
WHERE i.quantity > 1.2 * (SELECT AVG(s.quantity) FROM items s WHERE s.product_id = p.id);

SELECT country, COUNT(*) AS tall FROM users u WHERE height > (SELECT 1.04 * AVG(height) FROM users v WHERE v.country =
  u.country)
GROUP BY country ORDER BY country;

SELECT COUNT(*) AS tall FROM users WHERE height > 1.04 * (SELECT AVG(height) FROM users);

SELECT COUNT(*) AS n FROM users WHERE id IN (SELECT o.user_id FROM orders o JOIN returns r ON r.order_id = o.id);

-- == Views and enumerated types ==

SELECT country, COUNT(*) AS n FROM open_orders GROUP BY country ORDER BY country;

SELECT COUNT(DISTINCT v.user_id) AS people FROM open_orders v JOIN users u ON u.id = v.user_id WHERE u.height > 150;

SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n DESC;

SELECT status, COUNT(*) AS n FROM orders WHERE status IN ('open', 'paid') GROUP BY status ORDER BY status::text;

-- == Groups of an event in a subquery ==

SELECT AVG(n) AS items FROM (SELECT order_id, COUNT(*) AS n FROM items GROUP BY order_id) AS t;

SELECT n, COUNT(*) AS orders FROM (SELECT order_id, COUNT(*) AS n FROM items GROUP BY order_id) AS t
WHERE n <= 3 GROUP BY n ORDER BY n;

SELECT COUNT(*) AS large FROM (SELECT o.id FROM orders o JOIN items i ON i.order_id = o.id GROUP BY o.id
HAVING SUM(i.quantity) > 4) AS t;

-- == Outer joins from a public table ==

SELECT c.name, COUNT(u.id) AS n FROM countries c LEFT JOIN users u ON u.country = c.code GROUP BY c.name ORDER BY
  c.name;

SELECT date_trunc('month', c.day)::date AS month, AVG(o.rating) AS rating FROM orders o RIGHT JOIN calendar c
  ON o.placed::date = c.day WHERE c.day BETWEEN '2024-02-01' AND '2024-04-30' GROUP BY 1 ORDER BY 1;

-- == Aggregates of different values ==

-- == Long lists ==

SELECT COUNT(*) AS n FROM orders o
WHERE o.id <> 0 AND o.id <> 1 AND o.id <> 2 AND o.id <> 3 AND o.id <> 4 AND o.id <> 5 AND o.id <> 6 AND o.id <> 7 AND
  o.id <> 8 AND o.id <> 9 AND o.id <> 10 AND o.id <> 11 AND o.id <> 12 AND o.id <> 13 AND o.id <> 14 AND o.id <> 15
  AND o.id <> 16 AND o.id <> 17 AND o.id <> 18 AND o.id <> 19 AND o.id <> 20 AND o.id <> 21 AND o.id <> 22 AND o.id <>
  23 AND o.id <> 24 AND o.id <> 25 AND o.id <> 26 AND o.id <> 27 AND o.id <> 28 AND o.id <> 29 AND o.id <> 30 AND o.id
  <> 31 AND o.id <> 32 AND o.id <> 33 AND o.id <> 34 AND o.id <> 35 AND o.id <> 36 AND o.id <> 37 AND o.id <> 38 AND
  o.id <> 39 AND o.id <> 40 AND o.id <> 41 AND o.id <> 42 AND o.id <> 43 AND o.id <> 44 AND o.id <> 45 AND o.id <> 46
  AND o.id <> 47 AND o.id <> 48 AND o.id <> 49 AND o.id <> 50 AND o.id <> 51 AND o.id <> 52 AND o.id <> 53 AND o.id <>
  54 AND o.id <> 55 AND o.id <> 56 AND o.id <> 57 AND o.id <> 58 AND o.id <> 59 AND o.id <> 60 AND o.id <> 61 AND o.id
  <> 62 AND o.id <> 63 AND o.id <> 64 AND o.id <> 65 AND o.id <> 66 AND o.id <> 67 AND o.id <> 68 AND o.id <> 69 AND
  o.id <> 70 AND o.id <> 71 AND o.id <> 72 AND o.id <> 73 AND o.id <> 74 AND o.id <> 75 AND o.id <> 76 AND o.id <> 77
  AND o.id <> 78 AND o.id <> 79 AND o.id <> 80 AND o.id <> 81 AND o.id <> 82 AND o.id <> 83 AND o.id <> 84 AND o.id <>
  85 AND o.id <> 86 AND o.id <> 87 AND o.id <> 88 AND o.id <> 89 AND o.id <> 90 AND o.id <> 91 AND o.id <> 92 AND o.id
  <> 93 AND o.id <> 94 AND o.id <> 95 AND o.id <> 96 AND o.id <> 97 AND o.id <> 98 AND o.id <> 99;

-- Of 600 values.
SELECT COUNT(*) AS n FROM orders WHERE id IN (
  0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112,
  116, 120, 124, 128, 132, 136, 140, 144, 148, 152, 156, 160, 164, 168, 172, 176, 180, 184, 188, 192, 196, 200, 204,
  208, 212, 216, 220, 224, 228, 232, 236, 240, 244, 248, 252, 256, 260, 264, 268, 272, 276, 280, 284, 288, 292, 296,
  300, 304, 308, 312, 316, 320, 324, 328, 332, 336, 340, 344, 348, 352, 356, 360, 364, 368, 372, 376, 380, 384, 388,
  392, 396, 400, 404, 408, 412, 416, 420, 424, 428, 432, 436, 440, 444, 448, 452, 456, 460, 464, 468, 472, 476, 480,
  484, 488, 492, 496, 500, 504, 508, 512, 516, 520, 524, 528, 532, 536, 540, 544, 548, 552, 556, 560, 564, 568, 572,
  576, 580, 584, 588, 592, 596, 600, 604, 608, 612, 616, 620, 624, 628, 632, 636, 640, 644, 648, 652, 656, 660, 664,
  668, 672, 676, 680, 684, 688, 692, 696, 700, 704, 708, 712, 716, 720, 724, 728, 732, 736, 740, 744, 748, 752, 756,
  760, 764, 768, 772, 776, 780, 784, 788, 792, 796, 800, 804, 808, 812, 816, 820, 824, 828, 832, 836, 840, 844, 848,
  852, 856, 860, 864, 868, 872, 876, 880, 884, 888, 892, 896, 900, 904, 908, 912, 916, 920, 924, 928, 932, 936, 940,
  944, 948, 952, 956, 960, 964, 968, 972, 976, 980, 984, 988, 992, 996, 1000, 1004, 1008, 1012, 1016, 1020, 1024,
  1028, 1032, 1036, 1040, 1044, 1048, 1052, 1056, 1060, 1064, 1068, 1072, 1076, 1080, 1084, 1088, 1092, 1096, 1100,
  1104, 1108, 1112, 1116, 1120, 1124, 1128, 1132, 1136, 1140, 1144, 1148, 1152, 1156, 1160, 1164, 1168, 1172, 1176,
  1180, 1184, 1188, 1192, 1196, 1200, 1204, 1208, 1212, 1216, 1220, 1224, 1228, 1232, 1236, 1240, 1244, 1248, 1252,
  1256, 1260, 1264, 1268, 1272, 1276, 1280, 1284, 1288, 1292, 1296, 1300, 1304, 1308, 1312, 1316, 1320, 1324, 1328,
  1332, 1336, 1340, 1344, 1348, 1352, 1356, 1360, 1364, 1368, 1372, 1376, 1380, 1384, 1388, 1392, 1396, 1400, 1404,
  1408, 1412, 1416, 1420, 1424, 1428, 1432, 1436, 1440, 1444, 1448, 1452, 1456, 1460, 1464, 1468, 1472, 1476, 1480,
  1484, 1488, 1492, 1496, 1500, 1504, 1508, 1512, 1516, 1520, 1524, 1528, 1532, 1536, 1540, 1544, 1548, 1552, 1556,
  1560, 1564, 1568, 1572, 1576, 1580, 1584, 1588, 1592, 1596, 1600, 1604, 1608, 1612, 1616, 1620, 1624, 1628, 1632,
  1636, 1640, 1644, 1648, 1652, 1656, 1660, 1664, 1668, 1672, 1676, 1680, 1684, 1688, 1692, 1696, 1700, 1704, 1708,
  1712, 1716, 1720, 1724, 1728, 1732, 1736, 1740, 1744, 1748, 1752, 1756, 1760, 1764, 1768, 1772, 1776, 1780, 1784,
  1788, 1792, 1796, 1800, 1804, 1808, 1812, 1816, 1820, 1824, 1828, 1832, 1836, 1840, 1844, 1848, 1852, 1856, 1860,
  1864, 1868, 1872, 1876, 1880, 1884, 1888, 1892, 1896, 1900, 1904, 1908, 1912, 1916, 1920, 1924, 1928, 1932, 1936,
  1940, 1944, 1948, 1952, 1956, 1960, 1964, 1968, 1972, 1976, 1980, 1984, 1988, 1992, 1996, 2000, 2004, 2008, 2012,
  2016, 2020, 2024, 2028, 2032, 2036, 2040, 2044, 2048, 2052, 2056, 2060, 2064, 2068, 2072, 2076, 2080, 2084, 2088,
  2092, 2096, 2100, 2104, 2108, 2112, 2116, 2120, 2124, 2128, 2132, 2136, 2140, 2144, 2148, 2152, 2156, 2160, 2164,
  2168, 2172, 2176, 2180, 2184, 2188, 2192, 2196, 2200, 2204, 2208, 2212, 2216, 2220, 2224, 2228, 2232, 2236, 2240,
  2244, 2248, 2252, 2256, 2260, 2264, 2268, 2272, 2276, 2280, 2284, 2288, 2292, 2296, 2300, 2304, 2308, 2312, 2316,
  2320, 2324, 2328, 2332, 2336, 2340, 2344, 2348, 2352, 2356, 2360, 2364, 2368, 2372, 2376, 2380, 2384, 2388, 2392,
  2396);

-- == Functions, one row each ==

SELECT EXTRACT(hour FROM placed AT TIME ZONE 'Europe/Berlin') AS hour, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

SELECT date_trunc('month', placed, 'America/New_York') AS month, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

SELECT COUNT(*) AS n FROM orders WHERE channel SIMILAR TO '(web|app)%';

SELECT to_char(placed, 'FMMonth') AS month, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

SELECT to_char(placed, 'Dy') AS day, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

SELECT COUNT(*) AS adults FROM users WHERE EXTRACT(year FROM age(timestamp '2025-01-01', born)) >= 30;

SELECT AVG(log(height)) AS magnitude FROM users;

SELECT COUNT(*) AS both FROM (SELECT user_id FROM orders WHERE rating = 5 INTERSECT SELECT id FROM users WHERE height
  > 160)
AS t;

SELECT country, GROUPING(country) AS everywhere, COUNT(*) AS n FROM users GROUP BY ROLLUP (country) ORDER BY 2, 1;

SELECT 'all' AS country, COUNT(*) AS n FROM users UNION ALL SELECT 'none', 0 ORDER BY n DESC;

SELECT date_trunc('MONTH', placed)::date AS month, to_char(placed, 'yyyy-mm') AS text, COUNT(*) AS n
FROM orders GROUP BY 1, 2 ORDER BY 1;

SELECT (placed::date + interval '1 month')::date AS due, COUNT(*) AS n FROM orders WHERE placed < '2024-01-15'
GROUP BY 1 ORDER BY 1;

-- == What once were internal errors ==

SELECT country FROM users GROUP BY ROLLUP (country) ORDER BY country;

SELECT country, n, RANK() OVER (ORDER BY n DESC) AS place
FROM (SELECT country, COUNT(*) AS n FROM users GROUP BY ROLLUP (country)) AS t ORDER BY place, country;

-- == Keys of every type, people of several kinds ==

SELECT COUNT(DISTINCT (club, number)) AS members FROM members;

SELECT club, COUNT(*) AS n FROM members GROUP BY club ORDER BY club;

SELECT COUNT(DISTINCT badge) AS staff FROM staff WHERE level > 1;

SELECT (SELECT COUNT(*) FROM users) AS users, (SELECT COUNT(*) FROM staff) AS staff;

-- == Lists of what was released, in an order ==

SELECT string_agg(brand, ', ' ORDER BY brand DESC) AS brands, (array_agg(brand ORDER BY brand))[1] AS first
FROM (SELECT p.brand, COUNT(*) AS n FROM items i JOIN products p ON p.id = i.product_id WHERE p.manager = 1
  GROUP BY p.brand) AS b;

-- == Recursive queries of public rows ==

-- A calendar, as tools write it.
WITH RECURSIVE days AS (SELECT DATE '2024-01-01' AS day UNION ALL SELECT (day + 1)::date FROM days
  WHERE day < '2024-02-01')
SELECT d.day, COUNT(o.id) AS n FROM days d LEFT JOIN orders o ON o.placed::date = d.day GROUP BY d.day ORDER BY d.day;

WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3), rated AS (
  SELECT rating, COUNT(*) AS orders FROM orders WHERE rating BETWEEN 1 AND 5 GROUP BY rating)
SELECT n.i, rated.orders FROM n LEFT JOIN rated ON rated.rating = n.i ORDER BY n.i;

-- Some tools always write RECURSIVE.
WITH RECURSIVE rated AS (SELECT user_id, rating FROM orders WHERE rating > 2) SELECT COUNT(*) FROM rated;

-- == Public rows of a LEFT JOIN are one factor ==

SELECT u.country, c.name, c.euro, COUNT(*) AS n FROM users u LEFT JOIN countries c ON c.code = u.country
GROUP BY u.country, c.name, c.euro ORDER BY 1, 2;

-- What a key of theirs decides is no key of its own; half of the countries meet ON.
SELECT c.code, c.name, COUNT(*) AS n FROM users u LEFT JOIN countries c ON c.code = u.country AND c.euro
GROUP BY c.code ORDER BY 1;

SELECT u.country, COUNT(*) AS n FROM users u LEFT JOIN countries c ON c.code = u.country WHERE c.name LIKE '%#_1' ESCAPE '#'
OR c.euro GROUP BY u.country ORDER BY 1;

SELECT u.country, v.label, COUNT(*) AS n FROM users u LEFT JOIN (VALUES ('AX', 'a'), ('DX', 'd')) AS v (code, label)
ON v.code = u.country GROUP BY 1, 2 ORDER BY 1;

-- == Conditions on periods cut them ==

SELECT date_trunc('month', placed)::date AS month, COUNT(*) AS n FROM orders WHERE EXTRACT(quarter FROM placed) = 2
GROUP BY 1 ORDER BY 1;

-- == Rows of a public LEFT JOIN that nobody met ==

SELECT p.brand, SUM(CASE WHEN i.order_id IS NOT NULL THEN 1 ELSE 0 END) AS n, COUNT(*) FILTER (WHERE NOT i.order_id IS
NULL) AS m FROM products p LEFT JOIN items i ON i.product_id = p.id GROUP BY p.brand ORDER BY p.brand;

-- == EXISTS with a LIMIT, as Django writes it, and IN of events ==

SELECT COUNT(*) AS n FROM users u WHERE EXISTS (SELECT 1 AS a FROM orders o WHERE o.user_id = u.id AND o.rating = 3
LIMIT 1);

SELECT COUNT(*) AS n FROM users u WHERE NOT EXISTS (SELECT 1 AS a FROM countries c WHERE c.code = u.country AND c.euro
ORDER BY c.name LIMIT 1);

SELECT COUNT(*) AS n FROM orders WHERE id IN (SELECT order_id FROM items WHERE quantity > 4);

SELECT COUNT(*) AS n FROM orders WHERE id NOT IN (SELECT order_id FROM returns WHERE order_id IS NOT NULL);

SELECT COUNT(*) AS n FROM users u WHERE u.height - 150 NOT IN (SELECT o.pieces FROM orders o WHERE o.user_id = u.id);

-- == Still refused ==

-- PV014: a recursion over private rows.
WITH RECURSIVE placed AS (SELECT id, 1 AS level FROM orders WHERE rating = 1 UNION ALL
SELECT o.id, p.level + 1 FROM orders o JOIN placed p ON p.id = o.id + 1) SELECT level, COUNT(*) FROM placed GROUP BY 1;

-- PV014: of LIMIT 0 there is no row.
SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id LIMIT 0);

-- PV014: what is added up in a recursion has noise of which nothing is known.
WITH RECURSIVE rated AS (SELECT rating, COUNT(*) AS n FROM orders WHERE rating BETWEEN 1 AND 5 GROUP BY rating),
more AS (SELECT rating, n FROM rated UNION ALL SELECT rating + 1, n * 2 FROM more WHERE rating < 5)
SELECT SUM(n) FROM more;

-- PV010: the key of a row is no text to list.
SELECT MIN(id::text) AS first FROM orders WHERE rating = 1;

-- PV011: nor is the unit.
SELECT MAX(left(badge::text, 8)) AS last FROM staff WHERE level = 1;

-- PV014: the number of a row depends on everybody's rows; PERCENTILE_CONT says the same, and is answered.
SELECT MIN(CASE WHEN nr >= 0.5 * total THEN height END)
FROM (SELECT height, ROW_NUMBER() OVER (ORDER BY height) AS nr, COUNT(*) OVER () AS total FROM users) AS t;

-- PV015: which products others return is rows of other units.
SELECT COUNT(*) FROM items WHERE product_id IN (SELECT product_id FROM returns);

-- PV013: a statement reads people of one kind.
SELECT COUNT(*) FROM users u JOIN staff s ON s.level = u.height;

-- PV021: COUNT(*) counts a row for a country without users, too; COUNT(u.id) does not, and is answered.
SELECT c.name, COUNT(*) AS n FROM countries c LEFT JOIN users u ON u.country = c.code GROUP BY c.name ORDER BY c.name;

-- PV018: one person can change a sum of different values by as much as its largest, and no mechanism is there.
SELECT SUM(DISTINCT rating) AS total FROM orders;

-- PV018: as sums.
SELECT AVG(DISTINCT rating) AS mean, VARIANCE(DISTINCT rating) AS spread FROM orders;

-- PV018: ORDER BY COUNT(*) DESC LIMIT 1 says the same.
SELECT mode() WITHIN GROUP (ORDER BY country) AS country FROM users;

-- PV014: a place among everybody's rows is no function of one unit's; percentiles are answered.
SELECT quarter, COUNT(*) AS n FROM (SELECT id, NTILE(4) OVER (ORDER BY height) AS quarter FROM users) AS t
GROUP BY quarter ORDER BY quarter;

-- PV015: a subquery that is correlated with rows outside of any aggregate; GROUP BY says the same.
SELECT g.n, (SELECT COUNT(*) FROM orders o WHERE o.rating = g.n) AS rated FROM generate_series(1, 3) AS g(n) ORDER BY
  g.n;

-- 54001: 22 subqueries in each other, of 20.
SELECT COUNT(*) AS n FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id
  FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM
  (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM (SELECT id FROM
  (SELECT id FROM (SELECT id FROM (SELECT id FROM users WHERE height > 160) AS t0) AS t1) AS t2) AS t3) AS t4) AS t5)
  AS t6) AS t7) AS t8) AS t9) AS t10) AS t11) AS t12) AS t13) AS t14) AS t15) AS t16) AS t17) AS t18) AS t19) AS t20)
  AS t21) AS t;
