-- Common queries on such a table: parts of dates, CASE, concatenated texts, first rows by a text,
-- minimum and maximum of texts. Where a LIMIT follows, the order is total.
SELECT date_part('hour', pickup_datetime) AS hour, avg(tip_amount) AS tip FROM trips GROUP BY date_part('hour', pickup_datetime);
SELECT date_part('month', pickup_datetime) AS month, count(*) AS trips FROM trips GROUP BY date_part('month', pickup_datetime);
SELECT vendor_id, passenger_count, date_part('year', pickup_datetime) AS year, date_part('month', pickup_datetime) AS month, count(*) AS trips, sum(total_amount) AS amount, avg(trip_distance) AS distance FROM trips GROUP BY vendor_id, passenger_count, date_part('year', pickup_datetime), date_part('month', pickup_datetime);
SELECT count(*) AS trips FROM trips WHERE date_part('hour', pickup_datetime) = 7;
SELECT CAST(pickup_datetime AS DATE) AS day, count(*) AS trips, avg(total_amount) AS amount FROM trips GROUP BY CAST(pickup_datetime AS DATE);
SELECT date_trunc('month', pickup_datetime) AS month, count(*) AS trips, sum(total_amount) AS amount FROM trips GROUP BY date_trunc('month', pickup_datetime);
SELECT CASE WHEN trip_distance < 1 THEN 'short' WHEN trip_distance < 5 THEN 'middle' ELSE 'long' END AS length, count(*) AS trips, avg(total_amount) AS amount FROM trips GROUP BY CASE WHEN trip_distance < 1 THEN 'short' WHEN trip_distance < 5 THEN 'middle' ELSE 'long' END;
SELECT vendor_id || '-' || cab_type AS cab, count(*) AS trips FROM trips GROUP BY vendor_id || '-' || cab_type;
SELECT pickup_ntaname || ' > ' || dropoff_ntaname AS route, count(*) AS trips FROM trips GROUP BY pickup_ntaname || ' > ' || dropoff_ntaname ORDER BY trips DESC, route LIMIT 10;
SELECT trip_id % 1000 AS rest, count(*) AS trips FROM trips GROUP BY trip_id % 1000;
SELECT trip_id, pickup_ntaname FROM trips ORDER BY pickup_ntaname NULLS LAST, trip_id DESC LIMIT 10;
SELECT trip_id, pickup_ntaname FROM trips ORDER BY pickup_ntaname DESC NULLS LAST, trip_id LIMIT 1000;
SELECT min(pickup) AS least, max(dropoff) AS greatest FROM trips;
SELECT min(total_amount) AS least, max(total_amount) AS most, sum(total_amount) AS amount FROM trips WHERE vendor_id = 'CMT';
SELECT count(*) AS trips FROM trips WHERE pickup_ntaname = dropoff_ntaname;
SELECT substr(pickup, 1, 10) AS start, count(*) AS trips FROM trips GROUP BY substr(pickup, 1, 10) ORDER BY trips DESC, start LIMIT 10;
SELECT median(total_amount) AS middle FROM trips;
