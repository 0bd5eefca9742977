-- The summary of hook-analyze as standard SQL, over its Parquet files. `calls` is a view of them (README.md beside this
-- file says how to make it); each query begins with its name. They run as they are in DuckDB, Spark, and what else knows
-- common table expressions and window functions.

-- name: apis
-- Calls of each API, as `apis` of --json.
SELECT api,
       COUNT(*) AS calls,
       SUM(CASE WHEN outcome = 'ok' THEN 1 ELSE 0 END) AS ok,
       SUM(CASE WHEN outcome = 'denied' THEN 1 ELSE 0 END) AS denied,
       SUM(CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END) AS failed
FROM calls
GROUP BY api
ORDER BY calls DESC, api;

-- name: memory
-- As `memory` of --json: sums over the processes, the peak that of the process which held most. Freed is what the live
-- bytes fell by.
WITH steps AS (
    SELECT process, kind, outcome, ptr, size, live_bytes,
           CAST(live_bytes AS BIGINT)
               - COALESCE(LAG(CAST(live_bytes AS BIGINT)) OVER (PARTITION BY process ORDER BY call), 0) AS change,
           ROW_NUMBER() OVER (PARTITION BY process ORDER BY call DESC) AS from_end
    FROM calls
)
SELECT COALESCE(MAX(live_bytes), 0) AS peak_bytes,
       COALESCE(SUM(CASE WHEN from_end = 1 THEN live_bytes END), 0) AS live_bytes,
       COALESCE(SUM(CASE WHEN kind = 'alloc' AND outcome = 'ok' AND ptr <> '0x0' THEN size END), 0) AS allocated_bytes,
       COALESCE(SUM(CASE WHEN kind IN ('free', 'reset') THEN -change END), 0) AS freed_bytes
FROM steps;

-- name: tokens
-- Lowest and highest level after a launch, as `tokens.min` and `tokens.max`.
SELECT MIN(tokens) AS min, MAX(tokens) AS max
FROM calls
WHERE kind = 'launch';

-- name: denial_streaks
-- Runs of denied launches with no launch let through between them, as `tokens.denial_streaks`.
WITH launches AS (
    SELECT process, call, outcome,
           SUM(CASE WHEN outcome = 'denied' THEN 0 ELSE 1 END)
               OVER (PARTITION BY process ORDER BY call ROWS UNBOUNDED PRECEDING) AS passed
    FROM calls
    WHERE kind = 'launch'
)
SELECT MIN(call) AS first_call, COUNT(*) AS length, process
FROM launches
WHERE outcome = 'denied'
GROUP BY process, passed
ORDER BY process, first_call;

-- name: dims
-- Launches of each shape, as `dims`.
SELECT grid_x, grid_y, grid_z, block_x, block_y, block_z,
       COUNT(*) AS calls,
       SUM(CASE WHEN outcome = 'denied' THEN 1 ELSE 0 END) AS denied,
       SUM(CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END) AS failed
FROM calls
WHERE grid_x IS NOT NULL
GROUP BY grid_x, grid_y, grid_z, block_x, block_y, block_z
ORDER BY calls DESC, grid_x, grid_y, grid_z, block_x, block_y, block_z;

-- name: processes
-- Each process by itself, as `processes`: calls, denials, time from its first call to its last.
SELECT process,
       MAX(pid) AS pid,
       COUNT(*) AS calls,
       SUM(CASE WHEN outcome = 'denied' THEN 1 ELSE 0 END) AS denied,
       MAX(live_bytes) AS peak_bytes,
       (MAX(mono_ns) - MIN(mono_ns)) / 1e9 AS duration_s
FROM calls
GROUP BY process
ORDER BY process;
