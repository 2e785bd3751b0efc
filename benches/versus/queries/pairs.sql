-- Groups by every pair of eight columns with 4 to about ten million values: cab_type,
-- payment_type, passenger_count, pickup_puma, pickup_ntaname, dropoff_nyct2010_gid, total_amount,
-- pickup_datetime. The ten largest groups; any of those of equal size.
-- The line below tells versus.py that any of the rows that tie for the least last value may appear.
-- ties
SELECT cab_type, payment_type, count(*) AS trips FROM trips GROUP BY cab_type, payment_type ORDER BY trips DESC LIMIT 10;
SELECT cab_type, passenger_count, count(*) AS trips FROM trips GROUP BY cab_type, passenger_count ORDER BY trips DESC LIMIT 10;
SELECT cab_type, pickup_puma, count(*) AS trips FROM trips GROUP BY cab_type, pickup_puma ORDER BY trips DESC LIMIT 10;
SELECT cab_type, pickup_ntaname, count(*) AS trips FROM trips GROUP BY cab_type, pickup_ntaname ORDER BY trips DESC LIMIT 10;
SELECT cab_type, dropoff_nyct2010_gid, count(*) AS trips FROM trips GROUP BY cab_type, dropoff_nyct2010_gid ORDER BY trips DESC LIMIT 10;
SELECT cab_type, total_amount, count(*) AS trips FROM trips GROUP BY cab_type, total_amount ORDER BY trips DESC LIMIT 10;
SELECT cab_type, pickup_datetime, count(*) AS trips FROM trips GROUP BY cab_type, pickup_datetime ORDER BY trips DESC LIMIT 10;
SELECT payment_type, passenger_count, count(*) AS trips FROM trips GROUP BY payment_type, passenger_count ORDER BY trips DESC LIMIT 10;
SELECT payment_type, pickup_puma, count(*) AS trips FROM trips GROUP BY payment_type, pickup_puma ORDER BY trips DESC LIMIT 10;
SELECT payment_type, pickup_ntaname, count(*) AS trips FROM trips GROUP BY payment_type, pickup_ntaname ORDER BY trips DESC LIMIT 10;
SELECT payment_type, dropoff_nyct2010_gid, count(*) AS trips FROM trips GROUP BY payment_type, dropoff_nyct2010_gid ORDER BY trips DESC LIMIT 10;
SELECT payment_type, total_amount, count(*) AS trips FROM trips GROUP BY payment_type, total_amount ORDER BY trips DESC LIMIT 10;
SELECT payment_type, pickup_datetime, count(*) AS trips FROM trips GROUP BY payment_type, pickup_datetime ORDER BY trips DESC LIMIT 10;
SELECT passenger_count, pickup_puma, count(*) AS trips FROM trips GROUP BY passenger_count, pickup_puma ORDER BY trips DESC LIMIT 10;
SELECT passenger_count, pickup_ntaname, count(*) AS trips FROM trips GROUP BY passenger_count, pickup_ntaname ORDER BY trips DESC LIMIT 10;
SELECT passenger_count, dropoff_nyct2010_gid, count(*) AS trips FROM trips GROUP BY passenger_count, dropoff_nyct2010_gid ORDER BY trips DESC LIMIT 10;
SELECT passenger_count, total_amount, count(*) AS trips FROM trips GROUP BY passenger_count, total_amount ORDER BY trips DESC LIMIT 10;
SELECT passenger_count, pickup_datetime, count(*) AS trips FROM trips GROUP BY passenger_count, pickup_datetime ORDER BY trips DESC LIMIT 10;
SELECT pickup_puma, pickup_ntaname, count(*) AS trips FROM trips GROUP BY pickup_puma, pickup_ntaname ORDER BY trips DESC LIMIT 10;
SELECT pickup_puma, dropoff_nyct2010_gid, count(*) AS trips FROM trips GROUP BY pickup_puma, dropoff_nyct2010_gid ORDER BY trips DESC LIMIT 10;
SELECT pickup_puma, total_amount, count(*) AS trips FROM trips GROUP BY pickup_puma, total_amount ORDER BY trips DESC LIMIT 10;
SELECT pickup_puma, pickup_datetime, count(*) AS trips FROM trips GROUP BY pickup_puma, pickup_datetime ORDER BY trips DESC LIMIT 10;
SELECT pickup_ntaname, dropoff_nyct2010_gid, count(*) AS trips FROM trips GROUP BY pickup_ntaname, dropoff_nyct2010_gid ORDER BY trips DESC LIMIT 10;
SELECT pickup_ntaname, total_amount, count(*) AS trips FROM trips GROUP BY pickup_ntaname, total_amount ORDER BY trips DESC LIMIT 10;
SELECT pickup_ntaname, pickup_datetime, count(*) AS trips FROM trips GROUP BY pickup_ntaname, pickup_datetime ORDER BY trips DESC LIMIT 10;
SELECT dropoff_nyct2010_gid, total_amount, count(*) AS trips FROM trips GROUP BY dropoff_nyct2010_gid, total_amount ORDER BY trips DESC LIMIT 10;
SELECT dropoff_nyct2010_gid, pickup_datetime, count(*) AS trips FROM trips GROUP BY dropoff_nyct2010_gid, pickup_datetime ORDER BY trips DESC LIMIT 10;
SELECT total_amount, pickup_datetime, count(*) AS trips FROM trips GROUP BY total_amount, pickup_datetime ORDER BY trips DESC LIMIT 10;
