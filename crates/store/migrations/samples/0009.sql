-- Rows as this version writes them.
INSERT INTO accounts (id, handle, display_name, avatar, created_at, prepaid, budget_micros, held_micros, spent_micros, credit_micros) VALUES
('0193b000-0000-7000-8000-000000000001', 'sample', 'Sample', '0193b000-0000-7000-8000-0000000000a0', 1767322245678901, 1, 9000000, 500000, 300000, 5000000);

INSERT INTO api_keys (id, account_id, name, prefix, sha256, scopes, models, networks, rpm, max_running, budget_micros, created_at, expires_at, revoked_at, held_micros, spent_micros, open_tasks, budget_period, last_used_at, former_sha256, former_until, refuse_housekeeping) VALUES
('0193b000-0000-7000-8000-000000000002', '0193b000-0000-7000-8000-000000000001', 'plain', 'sk-mg-AbCdEf', 'aa', '["video:create","tasks:read"]', NULL, NULL, 600, 100, 2000000, 1767322245678901, NULL, NULL, 500000, 300000, 1, 'month', 1767322245678901, 'bb', 1767322345678901, 1);

INSERT INTO assets (id, account_id, media, size_bytes, sha256, created_at, expires_at, removed_at, delete_at) VALUES
('0193b000-0000-7000-8000-0000000000a0', '0193b000-0000-7000-8000-000000000001', 'png', 10, 'cc', 1767322245678901, NULL, NULL, NULL),
('0193b000-0000-7000-8000-0000000000a1', '0193b000-0000-7000-8000-000000000001', 'flac', 10, 'dd', 1767322245678901, 1769914245678901, 1769914245678902, 1770000645678902);

INSERT INTO workers (name, held_until, models) VALUES ('host-1', 1767322248678901, '["acme-video"]');

INSERT INTO tasks (id, account_id, key_id, kind, model, asked_model, provider, fingerprint, payload, state, progress, cost_micros, request_id, attempts, created_at, started_at, finished_at, error_code, error_message, output, event_seq, due_at, lease_owner, money, reserved_micros, tariff, bill, deaths, callback, origin, progress_estimated, trace) VALUES
('0193b000-0000-7000-8000-000000000010', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', 'video', 'acme-video', 'acme-video', 'acme', 'fp_0123456789', '{"type":"video_v1","prompt":"a lake","picture":null,"width":1280,"height":720,"milliseconds":5000,"fps":0,"seed":7,"user":null,"seed_is_asked":true,"negative_prompt":"rain","more_pictures":[],"conversation":[{"role":"system","text":"be brief"}]}', 'running', 10, 500000, 'req_1', 1, 1767322245678901, 1767322245678902, NULL, NULL, NULL, NULL, 3, 1767322245678901, 'host-1', 'held', 500000, '{"price":{"unit":"second","per_unit":100000},"routes":[{"provider":"other","model":"x-1","price":{"unit":"video","per_unit":300000}}],"asked":{"milliseconds":5000,"pixels":921600,"parts":1,"parts_asked":1}}', NULL, NULL, '2fK0mQ7aJp1Vd9sYb4TzXw', 'https://media.test', 1, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'),
('0193b000-0000-7000-8000-000000000011', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', 'video', 'acme-video', 'acme-video', 'acme', 'fp_0123456789', '{"type":"video_v1","prompt":"a sea","picture":null,"width":1280,"height":720,"milliseconds":5000,"fps":0,"seed":7,"user":null}', 'cancelled', 10, 400000, 'req_2', 1, 1767322245678901, 1767322245678902, 1767322245678909, 'cancelled', 'It was cancelled.', NULL, 3, 1767322245678901, NULL, 'settled', 500000, '{"price":{"unit":"second","per_unit":100000},"asked":{"milliseconds":5000,"pixels":921600,"parts":1,"parts_asked":1}}', '{"price":{"unit":"second","per_unit":100000},"quantity":{"milliseconds":4000,"pixels":921600,"parts":1,"parts_asked":1},"cost":400000,"partial":"It was cancelled, and made all the same."}', 1, NULL, NULL, 1, NULL);

INSERT INTO ledger (id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, note, created_at, counted_at) VALUES
('0193b000-0000-7000-8000-000000000050', '0193b000-0000-7000-8000-000000000001', NULL, NULL, 'credit', 0, 0, 5000000, 'paid', 1767322245678901, NULL),
('0193b000-0000-7000-8000-000000000010:reserve', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', '0193b000-0000-7000-8000-000000000010', 'reserve', 500000, 0, 0, NULL, 1767322245678901, NULL),
('0193b000-0000-7000-8000-000000000011:reserve', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', '0193b000-0000-7000-8000-000000000011', 'reserve', 500000, 0, 0, NULL, 1767322245678901, NULL),
('0193b000-0000-7000-8000-000000000011:settle', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', '0193b000-0000-7000-8000-000000000011', 'settle', -500000, 400000, 0, NULL, 1767322245678902, NULL),
('0193b000-0000-7000-8000-000000000011:adjust', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', '0193b000-0000-7000-8000-000000000011', 'adjust', 0, -100000, 0, 'too dark', 1767422245678901, 1767322245678902);

INSERT INTO daily_sums (account_id, day, key_id, model, spent_micros, credit_micros, past_micros, succeeded, failed, cancelled, forgiven_micros) VALUES
('0193b000-0000-7000-8000-000000000001', 20455, '', '', 0, 5000000, 0, 0, 0, 0, 0),
('0193b000-0000-7000-8000-000000000001', 20455, '0193b000-0000-7000-8000-000000000002', 'acme-video', 300000, 0, 0, 0, 0, 1, 250000);

INSERT INTO upkeep (kind, due_at) VALUES ('ledger', 1767322248678901);

INSERT INTO intents (id, account_id, key_id, idempotency_key, fingerprint, body, state, made, answer, holder, visits, joinable_until, sent_at, created_at) VALUES
('0193b000-0000-7000-8000-000000000060', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', 'k-1', 'ff', -7, 'made', '{"tasks":["0193b000-0000-7000-8000-000000000010"]}', '{"status":200,"headers":[],"body":"{}"}', NULL, 2, 1767322245678905, NULL, 1767322245678901),
('0193b000-0000-7000-8000-000000000061', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', NULL, 'fe', 7, 'working', NULL, NULL, 'callers-1', 1, NULL, 1767322245678903, 1767322245678901),
('0193b000-0000-7000-8000-000000000062', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', NULL, 'ff', -7, 'made', '{"tasks":["0193b000-0000-7000-8000-000000000011"]}', NULL, 'callers-1', 1, NULL, NULL, 1767322245678902);

INSERT INTO submissions (id, task_id, attempt, provider, route_model, credential, state, handle, error_class, error_message, created_at, accepted_at, follower, stray, due_at, results, cost_millionths, cost_unit, answered_at, ended_at, endpoint) VALUES
('0193b000-0000-7000-8000-000000000040', '0193b000-0000-7000-8000-000000000010', 1, 'other', 'x-1', '1:0011aabb', 'refused', NULL, 'rate_limited', 'slow down', 1767322245678902, NULL, NULL, 0, NULL, NULL, NULL, NULL, 1767322245678904, 1767322245678904, 'chat-video https://other.test/v1'),
('0193b000-0000-7000-8000-000000000041', '0193b000-0000-7000-8000-000000000010', 2, 'acme', 'sora-2', '1:0011aabb', 'accepted', NULL, NULL, NULL, 1767322245678903, 1767322245678904, 'host-1', 0, NULL, '[{"what":"video","source":{"address":"https://acme.test/1.mp4"}}]', 25000000, 'credits', 1767322245678904, NULL, 'openai-videos https://acme.test/v1'),
('0193b000-0000-7000-8000-000000000042', '0193b000-0000-7000-8000-000000000011', 1, 'acme', 'sora-2', '1:0011aabb', 'ended', '{"id":"job-1"}', 'cancelled', 'made', 1767322245678902, 1767322245678904, NULL, 0, NULL, NULL, 250000, 'usd', 1767322245678904, 1767322245678912, 'openai-videos https://acme.test/v1');

INSERT INTO task_events (task_id, seq, state, progress) VALUES
('0193b000-0000-7000-8000-000000000010', 1, 'queued', 0);

INSERT INTO clips (id, account_id, task_id, position, source_id, target, title, model, asked_model, audio, image, image_large, milliseconds, is_trashed, created_at, upstream, past_task_id) VALUES
('0193b000-0000-7000-8000-000000000020', '0193b000-0000-7000-8000-000000000001', NULL, 0, NULL, NULL, 'Song', 'acme-music', 'chirp-v4', '0193b000-0000-7000-8000-0000000000a1', '0193b000-0000-7000-8000-0000000000a0', '0193b000-0000-7000-8000-0000000000a0', 12000, 0, 1767322245678901, NULL, '0193b000-0000-7000-8000-00000000001f'),
('0193b000-0000-7000-8000-000000000021', '0193b000-0000-7000-8000-000000000001', NULL, 0, NULL, NULL, 'Other', 'acme-music', 'chirp-v4', '0193b000-0000-7000-8000-0000000000a1', '0193b000-0000-7000-8000-0000000000a0', '0193b000-0000-7000-8000-0000000000a0', 12000, 1, 1767322245678901, '{"provider":"acme","credential":"1:0011aabb","clip_id":"up-1","task_id":"t-1","tags":"jazz","prompt":"","video_url":"","model_name":"chirp-v4"}', NULL);

INSERT INTO personas (id, account_id, name, description, image, root_clip_id, clip_ids, is_public, is_public_approved, is_trashed, created_at, upstream) VALUES
('0193b000-0000-7000-8000-000000000030', '0193b000-0000-7000-8000-000000000001', 'Voice', '', '0193b000-0000-7000-8000-0000000000a0', '0193b000-0000-7000-8000-000000000020', '["0193b000-0000-7000-8000-000000000020"]', 0, 0, 0, 1767322245678901, '{"provider":"acme","credential":"1:0011aabb","persona_id":"p-1"}');

INSERT INTO refused_orders (body, owed, until_at, made_up_at) VALUES (-7, 2, 1767322305678901, 1767322245678901);

INSERT INTO account_storage (account_id, size_bytes) VALUES ('0193b000-0000-7000-8000-000000000001', 20);

INSERT INTO webhook_endpoints (id, account_id, url, description, events, scheme, secrets, enabled, disabled_why, failures, failing_since, created_at, key_id) VALUES
('0193b000-0000-7000-8000-000000000070', '0193b000-0000-7000-8000-000000000001', 'https://caller.test/all', 'all', NULL, 'hmac', 'c2VjcmV0', 1, NULL, 2, 1767322245678905, 1767322245678901, '0193b000-0000-7000-8000-000000000002'),
('0193b000-0000-7000-8000-000000000071', '0193b000-0000-7000-8000-000000000001', 'https://caller.test/some', '', '["task.failed"]', 'ed25519', 'c2VjcmV0', 0, 'gone', 1, 1767322245678905, 1767322245678901, NULL);

INSERT INTO webhook_secrets (account_id, secrets) VALUES ('0193b000-0000-7000-8000-000000000001', 'c2VjcmV0');

INSERT INTO webhook_events (id, account_id, task_id, type, body, created_at) VALUES
('0193b000-0000-7000-8000-000000000080', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000011', 'task.cancelled', '{"type":"task.cancelled"}', 1767322245678909);

INSERT INTO webhook_deliveries (id, account_id, event_id, endpoint_id, url, body, task_id, lane, state, attempts, tried_before, due_at, lease_owner, created_at, ended_at) VALUES
('0193b000-0000-7000-8000-000000000090', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000080', '0193b000-0000-7000-8000-000000000070', NULL, NULL, '0193b000-0000-7000-8000-000000000011', '0193b000-0000-7000-8000-000000000070', 'waiting', 1, 0, 1767322246678909, 'host-1', 1767322245678909, NULL),
('0193b000-0000-7000-8000-000000000091', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000080', NULL, '9aPq0LmZ3xVt7RkYc2WdHg', 'Qm4tZk8sXv1Lr6NyPd3Jwg', '0193b000-0000-7000-8000-000000000011', '0193b000-0000-7000-8000-000000000001 caller.test', 'delivered', 1, 0, 1767322245678909, NULL, 1767322245678909, 1767322245698909);

INSERT INTO webhook_attempts (delivery_id, number, at, took_ms, status, error, response) VALUES
('0193b000-0000-7000-8000-000000000090', 1, 1767322245679909, 20, 500, 'status', 'no'),
('0193b000-0000-7000-8000-000000000091', 1, 1767322245679909, 20, 204, NULL, '');

INSERT INTO task_words (term, task_id) VALUES (-7, '0193b000-0000-7000-8000-000000000010'), (7, '0193b000-0000-7000-8000-000000000011');

INSERT INTO audit (id, at, actor_kind, actor_id, actor_name, action, target, before, after, request_id, address) VALUES
('0193b000-0000-7000-8000-0000000000f1', 1767322245678901, 'command', NULL, 'keys update', 'key.update', '0193b000-0000-7000-8000-000000000002', '{"rpm":60}', '{"rpm":600}', NULL, NULL);

INSERT INTO route_notes (provider, model, paused_at, tried_at, refused_at, error_class, error_message, error_at) VALUES
('acme', 'sora-2', 1767322245678901, NULL, 1767322245678901, 'credentials', 'Incorrect API key provided.', 1767322245678901);

INSERT INTO sessions (sha256, key_id, created_at, expires_at, secret_sha256) VALUES
('ee', '0193b000-0000-7000-8000-000000000002', 1767322245678901, 1767365445678901, 'aa');

INSERT INTO rate_grants (key_id, tat, granted) VALUES ('0193b000-0000-7000-8000-000000000002', 1767322245678901000, 1);

INSERT INTO prints (id, account_id, task_id, clip_id, kind, is_embedded, sha256, watermark, video, sound, created_at) VALUES
('0193b000-0000-7000-8000-0000000000a1', '0193b000-0000-7000-8000-000000000001', NULL, '0193b000-0000-7000-8000-000000000020', 'song', 0, 'dd', NULL, NULL, 'AAAA', 1767322245678909),
('0193b000-0000-7000-8000-0000000000a2', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000010', NULL, 'video', 1, 'ee', 1099511627775, 'AAAA', NULL, 1767322245678909);

INSERT INTO print_keys (part, print_id) VALUES
(4095, '0193b000-0000-7000-8000-0000000000a2'),
(1099511627777, '0193b000-0000-7000-8000-0000000000a1');

INSERT INTO replicas (name, seen_at, marks) VALUES ('host-1', 1767322248678901, '{"brand":"musicgen"}');

INSERT INTO hourly_sums (hour, account_id, key_id, model, provider, outcome, tasks, spent_micros, made_micros, wasted_micros, unknown_jobs) VALUES
(490922, '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', 'acme-video', 'acme', 'cancelled', 1, 300000, 250000, 0, 0);

INSERT INTO past_tasks (id, state, cost_micros, removed_at) VALUES ('0193b000-0000-7000-8000-00000000001f', 'succeeded', 100000, 1767322245678901);

INSERT INTO turns (queue, account_id, number) VALUES ('engines', '0193b000-0000-7000-8000-000000000001', 1);

UPDATE tasks SET end_user = 'ada', metadata = '{"project":"lake"}' WHERE id = '0193b000-0000-7000-8000-000000000010';

INSERT INTO attributed_sums (account_id, attribute, digest, hour, key_id, model, provider, outcome, value, tasks, spent_micros, made_micros, wasted_micros, unknown_jobs) VALUES
('0193b000-0000-7000-8000-000000000001', 'user', 'b0c5d5ca1e4b1bd6d2ef7c86b9e9b8c0', 490922, '0193b000-0000-7000-8000-000000000002', 'acme-video', 'acme', 'cancelled', 'ada', 1, 300000, 0, 0, 0);

INSERT INTO end_user_limits (id, account_id, end_user, budget_micros, budget_period, rpm, max_running, created_at) VALUES
('0193b000-0000-7000-8000-0000000000b0', '0193b000-0000-7000-8000-000000000001', '*', 1000000, 'day', 10, 2, 1767322245678901);

INSERT INTO end_users (account_id, end_user, tat) VALUES ('0193b000-0000-7000-8000-000000000001', 'ada', 1767322245678901);

INSERT INTO budget_alerts (id, account_id, owner, owner_id, period_start, budget_micros, percent, used_micros, created_at) VALUES
('0193b000-0000-7000-8000-0000000000b1', '0193b000-0000-7000-8000-000000000001', 'user', 'ada', 0, 1000000, 50, 500000, 1767322245678901);
