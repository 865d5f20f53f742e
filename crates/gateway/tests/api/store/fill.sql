-- 20,000 tasks of ten accounts with forty keys, a hundredth of them open, their related rows,
-- and a consistent ledger. The same text for SQLite and Postgres.
INSERT INTO accounts (id, handle, display_name, avatar, created_at)
WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
SELECT 'a0000000-0000-7000-8000-' || substr(CAST(1000000000000 + i AS TEXT), 2), 'h' || CAST(i AS TEXT), 'n', 'f0000000-0000-7000-8000-' || substr(CAST(1000000000000 + i AS TEXT), 2),
       1700000000000000 + i FROM n;

INSERT INTO api_keys (id, account_id, name, prefix, sha256, scopes, rpm, max_running, created_at)
WITH RECURSIVE n(i) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < 3999)
SELECT 'b0000000-0000-7000-8000-' || substr(CAST(1000000000000 + i AS TEXT), 2),
       'a0000000-0000-7000-8000-' || substr(CAST(1000000000000 + 1 + i % 1000 AS TEXT), 2), 'n', 'p', 's' || CAST(i AS TEXT), '[]', 600, 100, 1 FROM n;

INSERT INTO tasks (id, account_id, key_id, kind, model, asked_model, provider, fingerprint, payload, state, request_id,
                   created_at, finished_at, event_seq, due_at, money, reserved_micros, cost_micros, lease_owner)
WITH RECURSIVE n(i) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < 19999),
t(i, state) AS (
    SELECT i, CASE WHEN i % 200 = 0 THEN 'queued' WHEN i % 200 = 1 THEN 'running' WHEN i % 20 = 2 THEN 'failed'
                   WHEN i % 5000 = 3 THEN 'cancelled' ELSE 'succeeded' END FROM n)
SELECT '10000000-0000-7000-8000-' || substr(CAST(1000000000000 + i AS TEXT), 2),
       'a0000000-0000-7000-8000-' || substr(CAST(1000000000000 + 1 + i % 10 AS TEXT), 2),
       'b0000000-0000-7000-8000-' || substr(CAST(1000000000000 + i % 10 + 1000 * (i / 10 % 4) AS TEXT), 2),
       CASE i % 3 WHEN 0 THEN 'music' ELSE 'video' END, 'm' || CAST(i % 7 AS TEXT), 'm',
       CASE i % 2 WHEN 0 THEN 'embedded' ELSE 'acme' END, 'fp', 
       '{"type":"video_v1","prompt":"a sea","picture":null,"width":1280,"height":720,"milliseconds":5000,"fps":0,"seed":7,"user":null}',
       state, 'req_1',
       1700000000000000 + i * 1000000, CASE WHEN state IN ('queued', 'running') THEN NULL ELSE 1700000001000000 + i * 1000000 END,
       2, 1700000000000000 + i * 1000000,
       CASE WHEN state IN ('queued', 'running') THEN 'held' WHEN state = 'succeeded' THEN 'settled' ELSE 'released' END,
       100000, CASE WHEN state IN ('failed', 'cancelled') THEN 0 ELSE 100000 END,
       CASE state WHEN 'running' THEN 'w1' ELSE NULL END
FROM t;

UPDATE tasks SET error_code = CASE state WHEN 'failed' THEN 'content_policy' ELSE NULL END;
INSERT INTO task_words (term, task_id) SELECT CAST(substr(account_id, 25) AS BIGINT), id FROM tasks;
INSERT INTO task_words (term, task_id)
SELECT 1000 * CAST(substr(account_id, 25) AS BIGINT) + created_at % 997, id FROM tasks;
INSERT INTO task_words (term, task_id)
SELECT 100000 * CAST(substr(account_id, 25) AS BIGINT) + created_at / 1000000 % 19, id FROM tasks;

INSERT INTO task_events (task_id, seq, state, progress) SELECT id, 1, 'queued', 0 FROM tasks;
INSERT INTO task_events (task_id, seq, state, progress) SELECT id, 2, state, 50 FROM tasks;

INSERT INTO ledger (id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, created_at)
SELECT id || ':reserve', account_id, key_id, id, 'reserve', 100000, 0, 0, created_at FROM tasks;
INSERT INTO ledger (id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, created_at)
SELECT id || ':end', account_id, key_id, id, CASE money WHEN 'settled' THEN 'settle' ELSE 'release' END, -100000, cost_micros, 0,
       finished_at FROM tasks WHERE finished_at IS NOT NULL;

INSERT INTO submissions (id, task_id, attempt, provider, route_model, credential, state, created_at, follower, endpoint)
SELECT 'e' || substr(id, 2), id, 1, 'acme', 'x', '1:aa', CASE WHEN finished_at IS NULL THEN 'accepted' ELSE 'ended' END, created_at, 'w1', 'fal https://acme.test'
FROM tasks WHERE provider = 'acme';

INSERT INTO assets (id, account_id, media, size_bytes, sha256, created_at, expires_at)
SELECT 'f' || substr(id, 2), account_id, 'mp4', 1, 'x', created_at, created_at + 900000000000000 FROM tasks;

INSERT INTO clips (id, account_id, task_id, position, title, model, asked_model, audio, image, image_large, is_trashed, created_at)
SELECT 'c' || substr(id, 2), account_id, id, 0, 't', 'm', 'm', 'f' || substr(id, 2), 'f' || substr(id, 2), 'f' || substr(id, 2), CASE model WHEN 'm1' THEN 1 ELSE 0 END, created_at
FROM tasks WHERE kind = 'music';

INSERT INTO personas (id, account_id, name, description, image, root_clip_id, clip_ids, is_public, is_public_approved, created_at)
SELECT 'd' || substr(id, 2), account_id, 'n', '', audio, id, '[]', 0, 0, created_at FROM clips;

INSERT INTO intents (id, account_id, key_id, idempotency_key, fingerprint, body, state, visits, joinable_until, created_at)
SELECT '9' || substr(id, 2), account_id, key_id, id, 'ff', created_at % 9973, 'made', 1,
       CASE WHEN finished_at IS NULL THEN NULL ELSE finished_at END, created_at FROM tasks;

INSERT INTO daily_sums (account_id, day, key_id, model, spent_micros, succeeded, failed, cancelled)
SELECT account_id, finished_at / 86400000000, key_id, model, CAST(SUM(cost_micros) AS BIGINT),
       SUM(CASE state WHEN 'succeeded' THEN 1 ELSE 0 END), SUM(CASE state WHEN 'failed' THEN 1 ELSE 0 END),
       SUM(CASE state WHEN 'cancelled' THEN 1 ELSE 0 END)
FROM tasks WHERE finished_at IS NOT NULL GROUP BY account_id, finished_at / 86400000000, key_id, model;

INSERT INTO hourly_sums (hour, account_id, key_id, model, provider, outcome, tasks, spent_micros)
SELECT finished_at / 3600000000, account_id, key_id, model, provider, state, COUNT(*), CAST(SUM(cost_micros) AS BIGINT)
FROM tasks WHERE finished_at IS NOT NULL GROUP BY finished_at / 3600000000, account_id, key_id, model, provider, state;

-- The first two days' sums, copied over two months. These days have no records.
INSERT INTO hourly_sums (hour, account_id, key_id, model, provider, outcome, tasks, spent_micros)
WITH RECURSIVE back (days) AS (SELECT 2 UNION ALL SELECT days + 2 FROM back WHERE days < 60)
SELECT hour - 24 * days, account_id, key_id, model, provider, outcome, tasks, spent_micros FROM hourly_sums CROSS JOIN back
WHERE hour / 24 <= (SELECT MIN(day) + 1 FROM daily_sums);
INSERT INTO daily_sums (account_id, day, key_id, model, spent_micros, past_micros, succeeded, failed, cancelled)
WITH RECURSIVE back (days) AS (SELECT 2 UNION ALL SELECT days + 2 FROM back WHERE days < 60)
SELECT account_id, day - days, key_id, model, spent_micros, spent_micros, succeeded, failed, cancelled
FROM daily_sums CROSS JOIN back WHERE day <= (SELECT MIN(day) + 1 FROM daily_sums);

UPDATE api_keys SET
    held_micros = (SELECT CAST(COALESCE(SUM(reserved_micros), 0) AS BIGINT) FROM tasks WHERE account_id = api_keys.account_id AND key_id = api_keys.id AND money = 'held'),
    open_tasks = (SELECT COUNT(*) FROM tasks WHERE key_id = api_keys.id AND state IN ('queued', 'running')),
    spent_micros = (SELECT CAST(COALESCE(SUM(spent_micros), 0) AS BIGINT) FROM daily_sums WHERE account_id = api_keys.account_id AND key_id = api_keys.id);
UPDATE accounts SET
    held_micros = (SELECT CAST(COALESCE(SUM(held_micros), 0) AS BIGINT) FROM api_keys WHERE account_id = accounts.id),
    spent_micros = (SELECT CAST(COALESCE(SUM(spent_micros), 0) AS BIGINT) FROM api_keys WHERE account_id = accounts.id);

INSERT INTO webhook_endpoints (id, account_id, url, description, scheme, secrets, enabled, created_at)
SELECT 'e' || substr(id, 2), id, 'https://example.com/', '', 'hmac', 's', 1, created_at FROM accounts;
INSERT INTO webhook_endpoints (id, account_id, url, description, scheme, secrets, enabled, created_at)
SELECT '6' || substr(id, 2), account_id, 'https://example.com/', '', 'hmac', 's', 1, created_at FROM tasks;
INSERT INTO webhook_events (id, account_id, task_id, type, body, created_at)
SELECT '7' || substr(id, 2), account_id, id, 'task.succeeded', '{}', finished_at FROM tasks WHERE finished_at IS NOT NULL;
INSERT INTO webhook_deliveries (id, account_id, event_id, endpoint_id, task_id, lane, state, attempts, due_at, lease_owner, created_at, ended_at)
SELECT '8' || substr(id, 2), account_id, id, 'e' || substr(account_id, 2), task_id, 'e' || substr(account_id, 2),
       CASE created_at % 97 WHEN 0 THEN 'waiting' WHEN 1 THEN 'held' ELSE 'delivered' END, 1, created_at,
       CASE created_at % 194 WHEN 0 THEN 'w1' ELSE NULL END, created_at,
       CASE created_at % 97 WHEN 0 THEN NULL ELSE created_at + 1000 END FROM webhook_events;
INSERT INTO webhook_attempts (delivery_id, number, at, took_ms, status) SELECT id, 1, created_at, 5, 200 FROM webhook_deliveries;

INSERT INTO audit (id, at, actor_kind, actor_name, action, target)
SELECT 'a' || substr(id, 2), created_at, 'command', 'keys update', 'key.update', key_id FROM tasks;

INSERT INTO prints (id, account_id, task_id, kind, is_embedded, sha256, watermark, created_at)
SELECT '9' || substr(id, 2), account_id, id, 'video', 1, id, created_at % 100003, created_at FROM tasks;
INSERT INTO print_keys (part, print_id) SELECT created_at % 9973, id FROM prints;

INSERT INTO attributed_sums (account_id, attribute, digest, hour, key_id, model, provider, outcome, value, tasks, spent_micros)
SELECT account_id, 'user', 'd' || model, hour, key_id, model, provider, outcome, 'u' || model, tasks, spent_micros FROM hourly_sums;
INSERT INTO end_users (account_id, end_user) SELECT account_id, id FROM tasks;
INSERT INTO end_user_limits (id, account_id, end_user, created_at) SELECT '5' || substr(id, 2), account_id, id, created_at FROM tasks;
INSERT INTO budget_alerts (id, account_id, owner, owner_id, period_start, budget_micros, percent, used_micros, created_at)
SELECT '4' || substr(id, 2), account_id, 'user', id, 0, 1000000, 50, 500000, created_at FROM tasks;

INSERT INTO requests (id, at, request_id, method, route, status, code, account_id, key_id, model, task_id, took_ms)
SELECT '3' || substr(id, 2), created_at, 'r' || id, 'POST', '/v1/videos', CASE state WHEN 'failed' THEN 422 ELSE 200 END,
       CASE state WHEN 'failed' THEN 'content_policy' ELSE NULL END, account_id, key_id, model, id, 5 FROM tasks;

INSERT INTO moderation_sums (hour, account_id, key_id, end_user, model, outcome, category, verdicts)
SELECT hour, account_id, key_id, provider || outcome, model, 'allow', '', 1 FROM hourly_sums;

INSERT INTO workers (name, held_until, models) VALUES ('w1', 1800000000000000, '[]'), ('w2', 1800000000000000, '[]');
