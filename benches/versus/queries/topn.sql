-- First and last rows by a column in whose order the rows are stored: exactly by `trip_id`, roughly
-- by `pickup_datetime` (trips of one batch are slightly out of order).
SELECT trip_id, pickup_datetime, total_amount FROM trips ORDER BY trip_id LIMIT 100;
SELECT trip_id, pickup_datetime, total_amount FROM trips ORDER BY trip_id DESC LIMIT 100;
SELECT trip_id, pickup_datetime, pickup_ntaname FROM trips ORDER BY pickup_datetime, trip_id LIMIT 100;
SELECT trip_id, pickup_datetime, pickup_ntaname FROM trips ORDER BY pickup_datetime DESC NULLS LAST, trip_id LIMIT 100;
SELECT trip_id, total_amount FROM trips WHERE passenger_count = 5 ORDER BY trip_id DESC LIMIT 100;
