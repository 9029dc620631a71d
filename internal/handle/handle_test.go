package handle_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/handle"
)

// A handle comes back as it was, and a text that is none has an error without the text.
func TestParse(t *testing.T) {
	owner := "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	h := handle.Handle{Key: "~sem/pool", Owner: &owner, Fence: 7, Mode: handle.Counted, TTL: time.Minute, Delay: time.Second}
	got, err := handle.Parse(" " + h.Secret() + "\n")
	if err != nil || got.ID() != (driver.ID{Key: "~sem/pool", Owner: owner}) || got.Fence != 7 || got.Mode != h.Mode || got.TTL != h.TTL || got.Delay != h.Delay {
		t.Errorf("%+v, %v", got, err)
	}
	for want, change := range map[string]func(h *handle.Handle){
		"no kind":   func(h *handle.Handle) { h.Key = "~other/pool" },
		"no name":   func(h *handle.Handle) { h.Key = "" },
		"no owner":  func(h *handle.Handle) { h.Owner = nil },
		"mode":      func(h *handle.Handle) { h.Mode = "greedy" },
		"fence":     func(h *handle.Handle) { h.Fence = driver.MaxFence },
		"short TTL": func(h *handle.Handle) { h.TTL = handle.MinTTL - 1 },
		"long TTL":  func(h *handle.Handle) { h.TTL = handle.MaxTTL + 1 },
		"delay":     func(h *handle.Handle) { h.Delay = -1 },
	} {
		wrong := h
		change(&wrong)
		if _, err := handle.Parse(wrong.Secret()); !errors.Is(err, handle.ErrNotOurs) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for text, want := range map[string]string{
		"":                                  "does not begin",
		owner:                               "does not begin",
		h.Secret()[:20]:                     "cut or changed",
		"dlh1." + strings.Repeat("A", 5000): "has 5000 bytes",
		strings.Replace(h.Secret(), ".", "..", 1): "cut or changed",
	} {
		if _, err := handle.Parse(text); err == nil || !strings.Contains(err.Error(), want) || len(text) > 5 && strings.Contains(err.Error(), text) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}
