package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// otherCommands maps the commands of other programs to those of this one.
var otherCommands = map[string]string{
	"list": "ls", "locks": "ls", "ps": "ls",
	"lock": "run, or acquire and release", "exec": "run", "with": "run",
	"unlock": "release, or break for the lock of another holder", "free": "release",
	"status": "show", "info": "show", "get": "show", "stat": "show",
	"extend": "renew", "refresh": "renew",
	"force-unlock": "break", "kill": "break", "steal": "break",
	"check": "doctor", "ping": "doctor", "leader": "elect", "semaphore": "run --slots",
}

// otherFlags maps the flags of other programs to those of this one.
var otherFlags = map[string]string{
	"timeout": "wait", "wait-timeout": "wait", "max-wait": "wait",
	"nonblock": "try", "non-blocking": "try", "no-wait": "try", "nowait": "try",
	"expiry": "ttl", "expire": "ttl", "lease": "ttl", "lease-time": "ttl",
	"url": "store", "redis": "store", "server": "store", "host": "store",
	"read": "shared", "max-time": "max-run", "at-least": "min-hold", "owner": "holder",
}

// unknownCommand returns the error for an unknown command. It suggests a similar one.
func unknownCommand(root *cobra.Command, name string) error {
	if ours := otherCommands[name]; ours != "" {
		return usage("unknown command %.64q: did you mean %s?", name, ours)
	}
	root.SuggestionsMinimumDistance = 2
	if like := root.SuggestionsFor(name); len(like) > 0 {
		return usage("unknown command %.64q: did you mean %s?", name, like[0])
	}
	return usage("unknown command %.64q: see distlock --help", name)
}

// flagError returns the error for a wrong flag. It suggests a similar one if the flag is unknown,
// and an example if its value is wrong.
func flagError(c *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		if ours := otherFlags[missing.GetSpecifiedName()]; c.Flags().Lookup(ours) != nil {
			return usage("%w: did you mean --%s?", err, ours)
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag, value := invalid.GetFlag(), invalid.GetValue()
		_, notDuration := time.ParseDuration(value)
		_, notNumber := strconv.Atoi(value)
		switch kind := flag.Value.Type(); {
		case kind == "duration" && notDuration != nil:
			return usage("--%s is %.64q, want a duration such as 10s or 1m30s", flag.Name, value)
		case kind == "int" && notNumber != nil:
			return usage("--%s is %.64q, want a whole number", flag.Name, value)
		}
	}
	return &exitError{exitUsage, err}
}
