-- Counts of distinct values, from few to many.
SELECT count(DISTINCT passenger_count) FROM trips;
SELECT count(DISTINCT pickup_ntaname) FROM trips;
SELECT count(DISTINCT dropoff_nyct2010_gid) FROM trips;
SELECT count(DISTINCT total_amount) FROM trips;
SELECT count(DISTINCT pickup_longitude) FROM trips;
SELECT count(DISTINCT pickup_datetime) FROM trips;
SELECT count(DISTINCT pickup) FROM trips;
SELECT count(DISTINCT trip_id) FROM trips;
SELECT passenger_count, count(DISTINCT pickup_nyct2010_gid) FROM trips GROUP BY passenger_count;
SELECT pickup_ntaname, count(DISTINCT total_amount), count(*) FROM trips GROUP BY pickup_ntaname;
SELECT count(*) FROM (SELECT DISTINCT pickup_puma, dropoff_puma, passenger_count FROM trips) AS t;
