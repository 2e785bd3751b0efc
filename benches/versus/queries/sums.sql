-- Sums of expressions, without division: engines differ in what `/` means.
SELECT sum(fare_amount + tip_amount + tolls_amount) FROM trips;
SELECT sum(total_amount - fare_amount - tip_amount) FROM trips;
SELECT sum(trip_distance * passenger_count) FROM trips;
SELECT sum(fare_amount * 1.1 + 2) FROM trips;
SELECT sum(fare_amount), sum(fare_amount + 1), sum(fare_amount + 2), sum(fare_amount + 3), sum(fare_amount + 4) FROM trips;
SELECT sum(trip_id * 3 + passenger_count), sum(pickup_puma - dropoff_puma) FROM trips;
SELECT sum((pickup_longitude - dropoff_longitude) * (pickup_longitude - dropoff_longitude) + (pickup_latitude - dropoff_latitude) * (pickup_latitude - dropoff_latitude)) FROM trips;
SELECT cab_type, sum(total_amount * passenger_count), avg(tip_amount + tolls_amount) FROM trips GROUP BY cab_type;
SELECT sum(total_amount * trip_distance) FROM trips WHERE passenger_count > 2 AND trip_distance < 5;
