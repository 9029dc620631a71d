package otellock_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/distlock/distlock/adapter/otellock"
	"github.com/distlock/distlock/internal/testenv"
)

const (
	dashboardFile = "../../contrib/grafana/distlock.json"
	alertsFile    = "../../contrib/prometheus/alerts.yml"
	pageFile      = "../../docs/observability.md"
)

// A catalogue has the series that Prometheus sees: the values of the labels, by the name of the
// series.
type catalogue map[string]map[string][]string

// exported returns the series that the code exports through the exporter for Prometheus.
func exported(t *testing.T) catalogue {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	observe, err := otellock.New(&otellock.Options{
		MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)), Group: func(string) string { return "g" },
	})
	if err != nil {
		t.Fatal(err)
	}
	everything(t, observe)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := catalogue{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "distlock_") {
			continue
		}
		labels := map[string][]string{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		if h := f.GetMetric()[0].GetHistogram(); h != nil {
			out[f.GetName()+"_sum"], out[f.GetName()+"_count"] = labels, labels
			labels = maps.Clone(labels)
			for _, b := range h.GetBucket() {
				labels["le"] = append(labels["le"], fmt.Sprint(b.GetUpperBound()))
			}
			out[f.GetName()+"_bucket"] = labels
		} else {
			out[f.GetName()] = labels
		}
	}
	if len(out) != 4*3+4 {
		t.Fatalf("%d series: %v", len(out), slices.Sorted(maps.Keys(out)))
	}
	return out
}

var (
	selector = regexp.MustCompile(`\b(distlock_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	legend   = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
)

// scraped are the labels that Prometheus adds.
var scraped = []string{"job", "instance"}

// flaws returns the metrics, labels and values that an expression uses and the code does not
// export, and the labels in text that the result does not have.
func (c catalogue) flaws(expr, text string) (found []string) {
	all := map[string]bool{}
	names := selector.FindAllStringSubmatch(expr, -1)
	if len(names) == 0 {
		found = append(found, "no metric of distlock")
	}
	for _, m := range names {
		labels, ok := c[m[1]]
		if !ok {
			found = append(found, "no metric "+m[1])
			continue
		}
		for l := range labels {
			all[l] = true
		}
		for _, x := range matcher.FindAllStringSubmatch(m[2], -1) {
			values, ok := labels[x[1]]
			switch {
			case slices.Contains(scraped, x[1]):
			case !ok:
				found = append(found, fmt.Sprintf("%s has no label %s", m[1], x[1]))
			case !strings.Contains(x[3], "$") && !slices.Contains(values, x[3]):
				found = append(found, fmt.Sprintf("%s of %s is never %s", x[1], m[1], x[3]))
			}
		}
	}
	grouped := map[string]bool{}
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			l = strings.TrimSpace(l)
			grouped[l] = true
			if !all[l] && !slices.Contains(scraped, l) {
				found = append(found, "no label "+l)
			}
		}
	}
	for _, m := range legend.FindAllStringSubmatch(text, -1) {
		if !grouped[m[1]] {
			found = append(found, m[1]+" is shown and not in the result")
		}
	}
	return found
}

func TestFlaws_canFail(t *testing.T) {
	c := exported(t)
	for expr, want := range map[string]string{
		`sum by (job, store, reason) (rate(distlock_lost_total{reason!="broken"}[5m]))`:         "",
		`histogram_quantile(0.9, sum by (le) (rate(distlock_lease_margin_seconds_bucket[5m])))`: "",
		`distlock_lease_margin_seconds_bucket{le="2.5"}`:                                        "",
		`distlock_lease_margin_seconds_bucket{le="2"}`:                                          "le of distlock_lease_margin_seconds_bucket is never 2",
		`distlock_losses_total`:                                         "no metric distlock_losses_total",
		`distlock_lost`:                                                 "no metric distlock_lost",
		`distlock_acquire_duration_seconds`:                             "no metric distlock_acquire_duration_seconds",
		`distlock_lost_total{reason="stolen"}`:                          "reason of distlock_lost_total is never stolen",
		`distlock_lost_total{mode="shared"}`:                            "distlock_lost_total has no label mode",
		`sum by (key) (distlock_leases)`:                                "no label key",
		`sum by (le) (rate(distlock_renew_duration_seconds_count[5m]))`: "no label le",
		`up`: "no metric of distlock",
	} {
		if got := strings.Join(c.flaws(expr, ""), "; "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
	if got := c.flaws(`sum by (store) (distlock_leases)`, "{{store}} {{ $labels.mode }}"); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// A dashboard is the part of Grafana's format that is used here.
type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
	Annotations   struct {
		List []struct{ Name, Expr, TitleFormat, TextFormat string }
	}
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  source
	GridPos     struct{ H, W, X, Y int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		RefID        string
		Expr         string
		LegendFormat string
		Datasource   source
	}
}

type variable struct {
	Name, Type, Definition string
	Datasource             source
}

type source struct{ Type, UID string }

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// units has the units of Grafana that fit the metrics.
var units = []string{"s", "ops", "short"}

func TestDashboard(t *testing.T) {
	c, d := exported(t), readDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 { // 36: sources are objects, as Grafana 9 and later have them
		t.Errorf("uid %q, title %q, schema %d", d.UID, d.Title, d.SchemaVersion)
	}
	prom, ids, used := source{"prometheus", "${datasource}"}, map[int]bool{}, map[string]bool{}
	for i, p := range d.Panels {
		at := fmt.Sprintf("panel %q", p.Title)
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: id %d", at, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > 24 {
			t.Errorf("%s: outside of the grid: %+v", at, g)
		}
		for _, o := range d.Panels[:i] {
			if h := o.GridPos; g.X < h.X+h.W && h.X < g.X+g.W && g.Y < h.Y+h.H && h.Y < g.Y+g.H {
				t.Errorf("%s covers %q", at, o.Title)
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource != prom || p.Description == "" || !slices.Contains(units, p.FieldConfig.Defaults.Unit) || len(p.Targets) == 0 {
			t.Errorf("%s: %+v", at, p)
		}
		for _, x := range p.Targets {
			for _, f := range c.flaws(x.Expr, x.LegendFormat) {
				t.Errorf("%s: %s", at, f)
			}
			if x.Datasource != prom || !strings.Contains(x.Expr, `job=~"$job", store=~"$store"`) {
				t.Errorf("%s: target %s does not follow the variables", at, x.RefID)
			}
			for _, m := range selector.FindAllStringSubmatch(x.Expr, -1) {
				used[family(m[1])] = true
			}
			if seconds := strings.Contains(x.Expr, "histogram_quantile"); seconds != (p.FieldConfig.Defaults.Unit == "s") {
				t.Errorf("%s: unit %s for %s", at, p.FieldConfig.Defaults.Unit, x.Expr)
			}
		}
	}
	for name := range c {
		if !used[family(name)] {
			t.Errorf("%s is on no panel", name)
		}
	}
	for _, a := range d.Annotations.List {
		for _, f := range c.flaws(a.Expr, a.TitleFormat+a.TextFormat) {
			t.Errorf("annotation %s: %s", a.Name, f)
		}
	}
	names := map[string]bool{}
	for _, v := range d.Templating.List {
		names[v.Name] = true
		if v.Type != "query" {
			continue
		}
		m := regexp.MustCompile(`^label_values\((distlock_\w+), (\w+)\)$`).FindStringSubmatch(v.Definition)
		if v.Datasource != prom || m == nil || c[m[1]] == nil || c[m[1]][m[2]] == nil && !slices.Contains(scraped, m[2]) {
			t.Errorf("variable %s: %s", v.Name, v.Definition)
		}
	}
	if !names["datasource"] || !names["job"] || !names["store"] {
		t.Errorf("variables %v", names)
	}
}

// family returns the name of a metric without the suffix of a histogram.
func family(name string) string {
	for _, s := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, s)
	}
	return name
}

// An alert is one of the rules. The file has one key a line, so that this test needs no YAML
// library; promtool checks the syntax.
type alert struct{ name, expr, text string }

func readAlerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var out []alert
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "- alert":
			out = append(out, alert{name: value})
		case "expr":
			out[len(out)-1].expr = value
		case "summary", "description", "runbook":
			out[len(out)-1].text += value + "\n"
		}
	}
	if len(out) < 5 {
		t.Fatalf("%d alerts", len(out))
	}
	return out
}

func TestAlerts(t *testing.T) {
	c := exported(t)
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range readAlerts(t) {
		for _, f := range c.flaws(a.expr, a.text) {
			t.Errorf("%s: %s", a.name, f)
		}
		if !strings.Contains(a.text, "docs/observability.md#"+strings.ToLower(a.name)+"\n") {
			t.Errorf("%s: no runbook", a.name)
		}
		if !strings.Contains(string(page), "\n### "+a.name+"\n") {
			t.Errorf("%s: the page does not say how to handle it", a.name)
		}
	}
}

// TestPage checks that the table on the page has every metric with its name in Prometheus and its
// labels.
func TestPage(t *testing.T) {
	c := exported(t)
	text, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) > 4 && strings.HasPrefix(strings.TrimSpace(cells[2]), "`distlock_") {
			rows[strings.Trim(cells[2], " `")] = cells[3]
		}
	}
	want := map[string][]string{}
	for name, labels := range c {
		want[family(name)] = slices.Collect(maps.Keys(labels))
	}
	if got := slices.Sorted(maps.Keys(rows)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("the page has %v", got)
	}
	for name, row := range rows {
		for _, l := range want[name] {
			if strings.HasPrefix(l, "otel_scope_") || l == "le" || l == "group" {
				continue
			}
			if !strings.Contains(row, "`"+l+"`") {
				t.Errorf("%s: the page does not have the label %s", name, l)
			}
			for _, v := range c.values(name, l) {
				if l != "store" && !strings.Contains(string(text), "`"+v+"`") {
					t.Errorf("%s: the page does not explain %s=%s", name, l, v)
				}
			}
		}
	}
}

// values returns the values of a label of a metric.
func (c catalogue) values(name, label string) []string {
	if labels, ok := c[name]; ok {
		return labels[label]
	}
	return c[name+"_count"][label]
}

// promtool runs Prometheus's own checker.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		testenv.Missing(t, "promtool", "apt-get install prometheus")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlerts_promtool(t *testing.T) {
	promtool(t, "check", "rules", alertsFile)
	promtool(t, "test", "rules", strings.Replace(alertsFile, ".yml", "_test.yml", 1))
}

// TestDashboard_promtool checks that Prometheus can parse every expression of the dashboard: as a
// rule, with values instead of Grafana's variables.
func TestDashboard_promtool(t *testing.T) {
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	n := 0
	for _, p := range readDashboard(t).Panels {
		for _, x := range p.Targets {
			n++
			expr := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$store", ".*").Replace(x.Expr)
			rules += fmt.Sprintf("      - record: panel:%d\n        expr: '%s'\n", n, expr)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}
