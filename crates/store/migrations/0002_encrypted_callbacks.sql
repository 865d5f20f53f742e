-- URLs of callbacks, and the bodies that contain one, are encrypted from this version on. Earlier versions cannot read
-- them. Encrypted text has no colon; every URL has. Upkeep encrypts what earlier versions wrote, and finds it by these
-- indexes, which are empty afterwards.
CREATE INDEX tasks_with_plain_callback ON tasks (id) WHERE callback LIKE '%:%';
CREATE INDEX webhook_deliveries_with_plain_url ON webhook_deliveries (id) WHERE endpoint_id IS NULL AND url LIKE '%:%';
