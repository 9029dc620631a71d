package main

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func TestWatch(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	const secret = "hunter22hunter"
	for _, shows := range []bool{false, true} {
		stop := watch(secret)
		args := []string{"-c", "read x; exit 0"}
		if shows {
			args = append(args, "redis://u:"+secret+"@h")
		}
		cmd := exec.Command("sh", args...)
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		found := stop() // looks once more
		in.Close()      // ends the process
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		err = listed(found)
		if (err != nil) != shows || err != nil && (!strings.Contains(err.Error(), ": sh") || strings.Contains(err.Error(), secret)) {
			t.Errorf("shows %v: %v", shows, err)
		}
	}
	if got := watch("")(); got != nil {
		t.Error(got)
	}
}
