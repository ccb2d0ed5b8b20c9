-- What each customer has ordered, made anew by every run.
CREATE MATERIALIZED VIEW customers AS
SELECT customer, count(*) AS orders, sum(total) AS total FROM orders GROUP BY customer;
