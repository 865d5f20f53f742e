-- Only adds.

-- JSON: how a clip's recording differs from the file that was read.
ALTER TABLE clips ADD COLUMN notes TEXT;
