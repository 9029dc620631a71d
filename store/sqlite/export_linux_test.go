package sqlite

// BootIn is the boot of a host that has its name in a file.
func BootIn(path string) (string, error) {
	h, err := hostOf(path)
	return h.boot, err
}
