// Package browser tests the dashboard of distlock serve in a real browser, Chromium.
package browser
