-- The address and the rules by which the stored text of a page was read; NULL: not known. A text that is read otherwise
-- cannot be compared with it.
ALTER TABLE sources ADD COLUMN page_read_as INTEGER;
