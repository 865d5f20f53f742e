-- Rows as version 2 writes them: a task at a provider, its submissions, a clip that a provider made.
INSERT INTO accounts (id, handle, display_name, avatar, created_at) VALUES
('0193b000-0000-7000-8000-000000000001', 'sample', 'Sample', '0193b000-0000-7000-8000-0000000000a0', 1767322245678901);

INSERT INTO api_keys (id, account_id, name, prefix, sha256, scopes, models, networks, rpm, max_running, budget_micros, created_at, expires_at, revoked_at) VALUES
('0193b000-0000-7000-8000-000000000002', '0193b000-0000-7000-8000-000000000001', 'plain', 'sk-mg-AbCdEf', 'aa', '["video:create","tasks:read"]', NULL, NULL, 600, 100, NULL, 1767322245678901, NULL, NULL);

INSERT INTO assets (id, account_id, media, size_bytes, sha256, created_at, expires_at, removed_at) VALUES
('0193b000-0000-7000-8000-0000000000a0', '0193b000-0000-7000-8000-000000000001', 'png', 10, 'cc', 1767322245678901, NULL, NULL),
('0193b000-0000-7000-8000-0000000000a1', '0193b000-0000-7000-8000-000000000001', 'flac', 10, 'dd', 1767322245678901, 1769914245678901, NULL);

INSERT INTO workers (name, held_until) VALUES ('host-1', 1767322248678901);

INSERT INTO tasks (id, account_id, key_id, kind, model, asked_model, provider, fingerprint, payload, state, progress, cost_micros, request_id, attempts, created_at, started_at, finished_at, error_code, error_message, output, event_seq, due_at, lease_owner) VALUES
('0193b000-0000-7000-8000-000000000010', '0193b000-0000-7000-8000-000000000001', '0193b000-0000-7000-8000-000000000002', 'video', 'acme-video', 'acme-video', 'acme', 'fp_0123456789', '{"type":"video_v1","prompt":"a lake","picture":null,"width":1280,"height":720,"milliseconds":5000,"fps":0,"seed":7,"user":null,"seed_is_asked":true,"negative_prompt":"rain","more_pictures":[],"conversation":[{"role":"system","text":"be brief"}]}', 'running', 10, 500000, 'req_1', 1, 1767322245678901, 1767322245678902, NULL, NULL, NULL, NULL, 3, 1767322245678901, 'host-1');

INSERT INTO submissions (id, task_id, attempt, provider, route_model, credential, state, handle, error_class, error_message, created_at, accepted_at) VALUES
('0193b000-0000-7000-8000-000000000040', '0193b000-0000-7000-8000-000000000010', 1, 'other', 'x-1', '1:0011aabb', 'refused', NULL, 'rate_limited', 'slow down', 1767322245678902, NULL),
('0193b000-0000-7000-8000-000000000041', '0193b000-0000-7000-8000-000000000010', 2, 'acme', 'sora-2', '1:0011aabb', 'accepted', '{"id":"video_1"}', NULL, NULL, 1767322245678903, 1767322245678904);

INSERT INTO task_events (task_id, seq, state, progress) VALUES
('0193b000-0000-7000-8000-000000000010', 1, 'queued', 0);

INSERT INTO clips (id, account_id, task_id, position, source_id, target, title, model, asked_model, audio, image, image_large, milliseconds, is_trashed, created_at, upstream) VALUES
('0193b000-0000-7000-8000-000000000020', '0193b000-0000-7000-8000-000000000001', NULL, 0, NULL, NULL, 'Song', 'acme-music', 'chirp-v4', '0193b000-0000-7000-8000-0000000000a1', '0193b000-0000-7000-8000-0000000000a0', '0193b000-0000-7000-8000-0000000000a0', 12000, 0, 1767322245678901, NULL),
('0193b000-0000-7000-8000-000000000021', '0193b000-0000-7000-8000-000000000001', NULL, 0, NULL, NULL, 'Other', 'acme-music', 'chirp-v4', '0193b000-0000-7000-8000-0000000000a1', '0193b000-0000-7000-8000-0000000000a0', '0193b000-0000-7000-8000-0000000000a0', 12000, 1, 1767322245678901, '{"provider":"acme","credential":"1:0011aabb","clip_id":"up-1","task_id":"t-1","tags":"jazz","prompt":"","video_url":"","model_name":"chirp-v4"}');

INSERT INTO personas (id, account_id, name, description, image, root_clip_id, clip_ids, is_public, is_public_approved, is_trashed, created_at, upstream) VALUES
('0193b000-0000-7000-8000-000000000030', '0193b000-0000-7000-8000-000000000001', 'Voice', '', '0193b000-0000-7000-8000-0000000000a0', '0193b000-0000-7000-8000-000000000020', '["0193b000-0000-7000-8000-000000000020"]', 0, 0, 0, 1767322245678901, '{"provider":"acme","credential":"1:0011aabb","persona_id":"p-1"}');
