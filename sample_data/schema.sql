CREATE TABLE households (
    household_id INTEGER PRIMARY KEY,
    age VARCHAR,
    income VARCHAR,
    home_ownership VARCHAR,
    marital_status VARCHAR,
    household_size VARCHAR,
    household_comp VARCHAR,
    kids_count VARCHAR
);
COMMENT ON TABLE households IS 'Every household of the study; demographics are known for about a third of them';
COMMENT ON COLUMN households.household_id IS 'The privacy unit';
COMMENT ON COLUMN households.age IS 'Estimated age range of the head of the household';
COMMENT ON COLUMN households.income IS 'Household income range in dollars a year';
COMMENT ON COLUMN households.home_ownership IS 'Owner or renter, where known';
COMMENT ON COLUMN households.marital_status IS 'Marital status, where known';
COMMENT ON COLUMN households.household_size IS 'Persons in the household, up to 5+';
COMMENT ON COLUMN households.household_comp IS 'Household composition';
COMMENT ON COLUMN households.kids_count IS 'Children in the household, up to 3+';

CREATE TABLE products (
    product_id INTEGER PRIMARY KEY,
    manufacturer_id INTEGER NOT NULL,
    department VARCHAR NOT NULL,
    brand VARCHAR NOT NULL,
    product_category VARCHAR,
    product_type VARCHAR,
    package_size VARCHAR
);
COMMENT ON TABLE products IS 'The product catalogue (public)';
COMMENT ON COLUMN products.department IS 'Coarsest group of products';
COMMENT ON COLUMN products.brand IS 'Private (the retailer''s own label) or National';
COMMENT ON COLUMN products.product_category IS 'Group of similar products';
COMMENT ON COLUMN products.product_type IS 'Finest group of similar products';

CREATE TABLE campaign_descriptions (
    campaign_id INTEGER PRIMARY KEY,
    campaign_type VARCHAR NOT NULL,
    start_date DATE NOT NULL,
    end_date DATE NOT NULL
);
COMMENT ON TABLE campaign_descriptions IS 'Coupon campaigns and when they ran (public)';

CREATE TABLE transactions (
    household_id INTEGER NOT NULL REFERENCES households (household_id),
    store_id INTEGER NOT NULL,
    basket_id BIGINT NOT NULL,
    product_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    sales_value DECIMAL(9, 2) NOT NULL,
    retail_disc DECIMAL(9, 2) NOT NULL,
    coupon_disc DECIMAL(9, 2) NOT NULL,
    coupon_match_disc DECIMAL(9, 2) NOT NULL,
    week INTEGER NOT NULL,
    transaction_timestamp TIMESTAMP NOT NULL,
    PRIMARY KEY (basket_id, product_id)
);
COMMENT ON TABLE transactions IS 'One row for a product in a basket; a few products are not in the catalogue';
COMMENT ON COLUMN transactions.basket_id IS 'One purchase occasion of one household';
COMMENT ON COLUMN transactions.quantity IS 'Units sold; very large for fuel';
COMMENT ON COLUMN transactions.sales_value IS 'Dollars that the retailer received';
COMMENT ON COLUMN transactions.retail_disc IS 'Dollars of discount by the loyalty card';
COMMENT ON COLUMN transactions.coupon_disc IS 'Dollars of discount by a manufacturer''s coupon';
COMMENT ON COLUMN transactions.coupon_match_disc IS 'Dollars by which the retailer matched a coupon';
COMMENT ON COLUMN transactions.week IS 'Week of the study, 1 to 53';

CREATE TABLE campaigns (
    campaign_id INTEGER NOT NULL REFERENCES campaign_descriptions (campaign_id),
    household_id INTEGER NOT NULL REFERENCES households (household_id),
    PRIMARY KEY (campaign_id, household_id)
);
COMMENT ON TABLE campaigns IS 'Which household was sent which campaign';

CREATE TABLE coupon_redemptions (
    household_id INTEGER NOT NULL REFERENCES households (household_id),
    coupon_upc BIGINT NOT NULL,
    campaign_id INTEGER NOT NULL REFERENCES campaign_descriptions (campaign_id),
    redemption_date DATE NOT NULL,
    PRIMARY KEY (household_id, coupon_upc, campaign_id, redemption_date)
);
COMMENT ON TABLE coupon_redemptions IS 'Coupons that households redeemed';
