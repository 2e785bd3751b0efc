-- The nine queries of the taxi benchmark. `/` between integers is integer division, which is
-- translated for each engine. The tie-breaker and NULLS LAST make the 100 largest unambiguous.
SELECT cab_type, count(*) FROM trips GROUP BY cab_type;
SELECT passenger_count, avg(total_amount) FROM trips GROUP BY passenger_count;
SELECT passenger_count, date_part('year', pickup_datetime) AS year, count(*) FROM trips GROUP BY passenger_count, date_part('year', pickup_datetime);
SELECT passenger_count, date_part('year', pickup_datetime) AS year, round(trip_distance) AS distance, count(*) AS trips FROM trips GROUP BY passenger_count, date_part('year', pickup_datetime), round(trip_distance) ORDER BY year, trips DESC;
SELECT trip_id, pickup_datetime, total_amount FROM trips WHERE passenger_count = 5 AND vendor_id = 'CMT' AND total_amount < 5 AND store_and_fwd_flag = 'Y';
SELECT trip_id, total_amount, pickup_ntaname FROM trips ORDER BY total_amount DESC NULLS LAST, trip_id LIMIT 100;
SELECT pickup_puma, dropoff_puma, passenger_count, count(*) FROM trips GROUP BY pickup_puma, dropoff_puma, passenger_count;
SELECT trip_id / 5 AS five, sum(total_amount) FROM trips GROUP BY trip_id / 5;
SELECT pickup_ntaname, count(*) FROM trips GROUP BY pickup_ntaname;
