package dashboard

import (
	"strings"

	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
)

// maxAudit is how many entries of the audit log a page has.
const maxAudit = 50

// An auditBody is the page of the audit log.
type auditBody struct {
	Kept      bool   // there is an audit log
	Name, Who string // what is searched for: a part of the name, and of the identity
	Rows      []auditRow
	Breaks    []auditRow // the latest, however many other entries came after them
}

type auditRow struct {
	AuditEntry
	Noun, Path string // of the lock; "" if the entry is about none
}

// audit returns the body of the page of the audit log.
func (d *Dashboard) audit(p *page) any {
	p.Title = "Audit"
	b := &auditBody{Kept: d.options.Audit != nil}
	if !b.Kept {
		return b
	}
	b.Name, b.Who = strings.TrimSpace(p.query.Get("name")), strings.TrimSpace(p.query.Get("who"))
	all := p.id.MayAll(access.Observe)
	keep := func(e AuditEntry) bool {
		return (all || e.Name != "" && sees(p.id, e.Name)) && contains(e.Name, b.Name) && contains(e.Identity, b.Who)
	}
	b.Rows = auditRows(d.options.Audit(maxAudit, keep))
	b.Breaks = auditRows(d.options.Audit(maxAudit, func(e AuditEntry) bool {
		return e.Verb == "break" && e.Outcome != "begun" && keep(e) // another entry says how it ended
	}))
	return b
}

// contains reports whether a text has a part, in any case.
func contains(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

func auditRows(all []AuditEntry) (out []auditRow) {
	for _, e := range all {
		row := auditRow{AuditEntry: e}
		if k, ok := names.Parse(e.Kind); ok && e.Name != "" {
			row.Noun, row.Path = nouns[k], lockPath(k, e.Name)
		}
		out = append(out, row)
	}
	return out
}
