package rueidisstore

// Parse reads a URL.
func Parse(text string) error {
	_, _, err := parse(text)
	return err
}
