package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Real cron starts two jobs at the same minute. One runs, and the other is skipped. The skipped one
// prints nothing, because cron mails all output.
func TestRun_cron(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	line := "* * * * * distlock run -n -E 0 nightly -c 'echo $DISTLOCK_LOCK_NAME >>" + file("ran") + "; while ! test -e " + file("enough") +
		"; do sleep 0.05; done' >>" + file("mail") + " 2>&1; echo $? >>" + file("codes") + "\n"
	cron(t, "SHELL=/bin/sh\nPATH="+os.Getenv("PATH")+"\nDISTLOCK_STORE="+sqliteStore(t)+"\nXDG_CONFIG_HOME="+dir+"\n"+line+line)

	read := func(name string) string { text, _ := os.ReadFile(file(name)); return string(text) }
	within(t, 90*time.Second, "one job is skipped", func() bool { return read("codes") == "0\n" })
	// The other job has the lock, but may still be starting.
	eventually(t, "the other runs", func() bool { return read("ran") != "" })
	if err := os.WriteFile(file("enough"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other ends", func() bool { return read("codes") == "0\n0\n" })
	if ran := read("ran"); ran != "nightly\n" {
		t.Errorf("the jobs that ran: %q", ran)
	}
	if mail := read("mail"); mail != "" {
		t.Errorf("cron would mail %q", mail)
	}
}

// cron runs cron with this crontab for root. It has mounts of its own, so that it does not run the
// other crontabs of this machine.
func cron(t *testing.T, crontab string) {
	t.Helper()
	program, err := exec.LookPath("/usr/sbin/cron")
	switch {
	case err != nil && (os.Getenv("CI") == "true" || os.Getenv("DISTLOCK_REQUIRE_SERVERS") == "1"):
		t.Fatal("no cron on this machine; to get it: scripts/servers")
	case err != nil:
		t.Skip("SKIPPED, NOTHING WAS TESTED: no cron on this machine; to get it: scripts/servers")
	case os.Getuid() != 0:
		t.Skip("SKIPPED, NOTHING WAS TESTED: cron with mounts of its own needs root")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("spool/crontabs/root", crontab)
	write("d/.none", "")
	write("crontab", "")
	write("pam", "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n")
	script := "set -e; mount --make-rprivate /; mount --bind spool /var/spool/cron; mount --bind d /etc/cron.d; " +
		"mount --bind pam /etc/pam.d/cron; test ! -e /etc/crontab || mount --bind crontab /etc/crontab; " +
		"mount -t tmpfs none /run; exec env " + soonEnv() + " " + program + " -f"
	c := exec.Command("sh", "-c", script)
	c.Dir = dir
	var log strings.Builder
	c.Stdout, c.Stderr, c.WaitDelay = &log, &log, time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Skip("SKIPPED, NOTHING WAS TESTED: no mounts of our own: ", err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Log("the output of cron:", log.String())
		}
	})
}

// soonEnv returns the environment in which cron sees a minute begin in three seconds. Without
// libfaketime the environment is empty, and the test waits for the next minute.
func soonEnv() string {
	lib, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(lib) == 0 {
		return ""
	}
	ahead := (57 - time.Now().Second() + 60) % 60
	return fmt.Sprintf("LD_PRELOAD=%s FAKETIME=+%ds", lib[0], ahead)
}
