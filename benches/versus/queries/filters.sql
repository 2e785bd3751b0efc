-- Filters that keep 1e-7, 1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9 and 1 of 20 million trips
-- (`sty gen`, seed 1), by an unsorted column.
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 40.379;
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 40.455;
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 40.5606;
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 40.5749;
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 40.587873;
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 40.644832;
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 40.7145;
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 40.7525;
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 40.783823;
SELECT count(*) AS trips, sum(total_amount) AS amount, max(trip_distance) AS longest FROM trips WHERE pickup_latitude <= 43;
