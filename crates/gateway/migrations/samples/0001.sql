-- Rows as version 1 writes them: one of each table, tasks in each state.
INSERT INTO accounts (id, handle, display_name, avatar, created_at) VALUES
('0193a000-0000-7000-8000-000000000001', 'sample', 'Sample', '0193a000-0000-7000-8000-0000000000a0', 1767322245678901);

INSERT INTO api_keys (id, account_id, name, prefix, sha256, scopes, models, networks, rpm, max_running, budget_micros, created_at, expires_at, revoked_at) VALUES
('0193a000-0000-7000-8000-000000000002', '0193a000-0000-7000-8000-000000000001', 'plain', 'sk-mg-AbCdEf', 'aa', '["video:create","tasks:read"]', NULL, NULL, 600, 100, NULL, 1767322245678901, NULL, NULL),
('0193a000-0000-7000-8000-000000000003', '0193a000-0000-7000-8000-000000000001', 'bound', 'sk-mg-GhIjKl', 'bb', '["admin"]', '["animatic-1"]', '["10.0.0.0/8"]', 10, 1, 25000000, 1767322245678901, 1798858245678901, 1767322245678902);

INSERT INTO assets (id, account_id, media, size_bytes, sha256, created_at, expires_at, removed_at) VALUES
('0193a000-0000-7000-8000-0000000000a0', '0193a000-0000-7000-8000-000000000001', 'png', 10, 'cc', 1767322245678901, NULL, NULL),
('0193a000-0000-7000-8000-0000000000a1', '0193a000-0000-7000-8000-000000000001', 'flac', 10, 'dd', 1767322245678901, 1769914245678901, NULL);

INSERT INTO tasks (id, account_id, key_id, kind, model, asked_model, provider, fingerprint, payload, state, progress, cost_micros, request_id, attempts, created_at, started_at, finished_at, error_code, error_message, output, event_seq, due_at) VALUES
('0193a000-0000-7000-8000-000000000010', '0193a000-0000-7000-8000-000000000001', '0193a000-0000-7000-8000-000000000002', 'video', 'animatic-1', 'animatic-1', 'embedded', 'fp_0123456789', '{"type":"video_v1","prompt":"a lake","picture":null,"width":1280,"height":720,"milliseconds":5000,"fps":30,"seed":0,"user":null}', 'queued', 0, 0, 'req_1', 0, 1767322245678901, NULL, NULL, NULL, NULL, NULL, 1, 1767322245678901),
('0193a000-0000-7000-8000-000000000011', '0193a000-0000-7000-8000-000000000001', '0193a000-0000-7000-8000-000000000002', 'video', 'animatic-1', 'animatic-1', 'embedded', 'fp_0123456789', '{"type":"video_v1","prompt":"a lake","picture":null,"width":1280,"height":720,"milliseconds":5000,"fps":30,"seed":0,"user":null}', 'failed', 40, 0, 'req_2', 1, 1767322245678901, 1767322245678902, 1767322245678903, 'generation_failed', 'It broke.', NULL, 3, 1767322245678901);

INSERT INTO clips (id, account_id, task_id, position, source_id, target, title, model, asked_model, audio, image, image_large, milliseconds, is_trashed, created_at) VALUES
('0193a000-0000-7000-8000-000000000020', '0193a000-0000-7000-8000-000000000001', NULL, 0, NULL, NULL, 'Song', '', '', '0193a000-0000-7000-8000-0000000000a1', '0193a000-0000-7000-8000-0000000000a0', '0193a000-0000-7000-8000-0000000000a0', 12000, 0, 1767322245678901);

INSERT INTO tasks (id, account_id, key_id, kind, model, asked_model, provider, fingerprint, payload, state, progress, cost_micros, request_id, attempts, created_at, started_at, finished_at, error_code, error_message, output, event_seq, due_at) VALUES
('0193a000-0000-7000-8000-000000000012', '0193a000-0000-7000-8000-000000000001', '0193a000-0000-7000-8000-000000000003', 'music', 'stems-dsp-1', 'chirp-auk', 'embedded', 'fp_0123456789', '{"type":"stems_v1","source":"0193a000-0000-7000-8000-000000000020","source_audio":"0193a000-0000-7000-8000-0000000000a1","milliseconds":12000,"stem_task":"two","group_name":"Two","outputs":[["0193a000-0000-7000-8000-000000000021",{"only":"vocals"}],["0193a000-0000-7000-8000-000000000022",{"without":"vocals"}]],"generation_type":"TEXT","make_instrumental":false,"title":"Song"}', 'succeeded', 100, 0, 'req_3', 1, 1767322245678901, 1767322245678902, 1767322245678903, NULL, NULL, '{"type":"clips_v1","clips":["0193a000-0000-7000-8000-000000000021","0193a000-0000-7000-8000-000000000022"]}', 3, 1767322245678901);

INSERT INTO task_events (task_id, seq, state, progress) VALUES
('0193a000-0000-7000-8000-000000000010', 1, 'queued', 0),
('0193a000-0000-7000-8000-000000000012', 3, 'succeeded', 100);

INSERT INTO clips (id, account_id, task_id, position, source_id, target, title, model, asked_model, audio, image, image_large, milliseconds, is_trashed, created_at) VALUES
('0193a000-0000-7000-8000-000000000021', '0193a000-0000-7000-8000-000000000001', '0193a000-0000-7000-8000-000000000012', 0, '0193a000-0000-7000-8000-000000000020', '{"only":"vocals"}', 'Song (Vocals)', 'stems-dsp-1', 'chirp-auk', '0193a000-0000-7000-8000-0000000000a1', '0193a000-0000-7000-8000-0000000000a0', '0193a000-0000-7000-8000-0000000000a0', 12000, 0, 1767322245678901),
('0193a000-0000-7000-8000-000000000022', '0193a000-0000-7000-8000-000000000001', '0193a000-0000-7000-8000-000000000012', 1, '0193a000-0000-7000-8000-000000000020', '{"without":"vocals"}', 'Song (Instrumental)', 'stems-dsp-1', 'chirp-auk', '0193a000-0000-7000-8000-0000000000a1', '0193a000-0000-7000-8000-0000000000a0', '0193a000-0000-7000-8000-0000000000a0', 12000, 1, 1767322245678901);

INSERT INTO personas (id, account_id, name, description, image, root_clip_id, clip_ids, is_public, is_public_approved, is_trashed, created_at) VALUES
('0193a000-0000-7000-8000-000000000030', '0193a000-0000-7000-8000-000000000001', 'Voice', '', '0193a000-0000-7000-8000-0000000000a0', '0193a000-0000-7000-8000-000000000020', '["0193a000-0000-7000-8000-000000000020"]', 0, 0, 0, 1767322245678901);
