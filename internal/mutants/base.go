package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// auto is the revision of -since that [base] chooses.
const auto = "auto"

// recent is the number of commits to go back if nothing else defines the base.
const recent = 20

// git runs git and returns its output.
func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, first)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// base returns the commit that the working tree is compared with: DISTLOCK_BASE if it is set; else
// the merge base with origin/main, if that is not HEAD; else the commit [recent] steps back, or the
// first one. In a fresh clone of main, origin/main is HEAD, and only the last rule applies.
func base(ctx context.Context) (string, error) {
	if rev := os.Getenv("DISTLOCK_BASE"); rev != "" {
		return rev, nil
	}
	head, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	if rev, err := git(ctx, "merge-base", "HEAD", "origin/main"); err == nil && rev != head {
		return rev, nil
	}
	list, err := git(ctx, "rev-list", "--first-parent", "--max-count="+strconv.Itoa(recent+1), "HEAD")
	first := list[strings.LastIndex(list, "\n")+1:]
	if err == nil && first == head {
		err = errors.New("there is no commit before HEAD: a shallow clone?")
	}
	return first, err
}

// changeSince returns the difference between a revision and the working tree. Uncommitted and
// untracked files count.
func changeSince(ctx context.Context, rev string) (change, error) {
	rev, err := git(ctx, "rev-parse", "--verify", "--end-of-options", rev+"^{commit}")
	if err != nil {
		return change{}, err
	}
	tracked, err := git(ctx, "diff", "--name-only", "--no-renames", "-z", rev, "--")
	if err != nil {
		return change{}, err
	}
	untracked, err := git(ctx, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return change{}, err
	}
	files := strings.FieldsFunc(tracked+"\x00"+untracked, func(r rune) bool { return r == 0 })
	before, after := map[string]string{}, map[string]string{}
	for _, file := range files {
		if ok, _ := path.Match("internal/mutants/*.go", file); !ok {
			continue
		}
		old, _ := git(ctx, "show", rev+":"+file) // a new file has no rows before
		maps.Copy(before, rowsOf(old))
		now, _ := os.ReadFile(filepath.FromSlash(file)) // a removed one has none after
		maps.Copy(after, rowsOf(string(now)))
	}
	return change{packagesOf(files, hasGo), rowsThatDiffer(before, after),
		tree{hasGo, testImports}}, nil
}

// seedOf returns a seed that is the same for the same commit.
func seedOf(ctx context.Context) uint64 {
	head, err := git(ctx, "rev-parse", "HEAD")
	if err != nil || len(head) < 8 {
		return 0 // no repository: any sample will do
	}
	seed, _ := strconv.ParseUint(head[:8], 16, 64)
	return seed
}
