-- LIKE on `pickup`, a hexadecimal text that differs in nearly every row, and on a name.
SELECT count(*) FROM trips WHERE pickup LIKE '%4440';
SELECT count(*) FROM trips WHERE pickup LIKE '0101000020E610000000000000%';
SELECT count(*) FROM trips WHERE pickup LIKE '%7F52C0%';
SELECT count(*) FROM trips WHERE pickup LIKE '%52C0%AB%4440';
SELECT count(*) FROM trips WHERE pickup NOT LIKE '%52C0%';
SELECT count(*) FROM trips WHERE pickup LIKE '01010000_0E6100000________________52C0%';
SELECT count(*), sum(total_amount) FROM trips WHERE pickup LIKE '%ABCDEF%' OR dropoff LIKE '%ABCDEF%';
SELECT count(*) FROM trips WHERE pickup_ntaname LIKE '%Hill%';
