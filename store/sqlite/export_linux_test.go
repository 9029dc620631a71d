package sqlite

// BootIn returns the boot of a host whose boot identifier is in a file.
func BootIn(path string) (string, error) {
	h, err := hostOf(path)
	return h.boot, err
}
