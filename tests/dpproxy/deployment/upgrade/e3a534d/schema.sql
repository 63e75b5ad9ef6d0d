CREATE TABLE users (user_id BIGINT PRIMARY KEY, country VARCHAR, birth_year INTEGER);
CREATE TABLE products (product_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, color VARCHAR);
CREATE TABLE orders (order_id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, product_id INTEGER, note VARCHAR, price DECIMAL(9, 2), placed TIMESTAMP);
INSERT INTO users SELECT n, ['DE', 'FR', 'US'][1 + n % 3], 1940 + n % 60 FROM range(2000) AS r(n);
INSERT INTO products SELECT n, 'product ' || n, ['red', 'blue', 'green'][1 + n % 3] FROM range(8) AS r(n);
INSERT INTO orders SELECT n, n % 1900, n % 8, 'note ' || n % 3, n % 90 + 0.5, TIMESTAMP '2024-01-01' + INTERVAL 1 HOUR * (n % 4000) FROM range(6000) AS r(n);
