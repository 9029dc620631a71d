package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/server/tokens"
)

// token returns the command with the commands for the tokens of a lock server.
func (a *app) token() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens of a lock server's clients",
		Long: "Make, list and revoke the tokens of a lock server's clients. A token proves the identity " +
			"of a client, and the file of --tokens says what each identity may do. A server that runs " +
			"with the same file obeys a change within a second.",
		Example: "  distlock token new ci --tokens tokens.toml --allow 'team-a/=acquire,observe' --expires 90d\n" +
			"  distlock token list --tokens tokens.toml\n" +
			"  distlock token revoke --tokens tokens.toml ID",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %.64q: there are new, list and revoke", args[0])
			}
			return usage("no command given: there are new, list and revoke")
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	for _, sub := range []*cobra.Command{a.tokenNew(), a.tokenList(), a.tokenRevoke()} {
		sub.Flags().String("tokens", "", "the `FILE` of the tokens")
		c.AddCommand(sub)
	}
	return c
}

// tokensFile returns the file of the tokens.
func (a *app) tokensFile(c *cobra.Command) (string, error) {
	if err := a.configure(c); err != nil {
		return "", err
	}
	path := c.Flags().Lookup("tokens").Value.String()
	if path == "" {
		return "", usage("--tokens FILE is missing")
	}
	return path, nil
}

func (a *app) tokenNew() *cobra.Command {
	var allow []string
	var expires, maxTTL, maxKeep string
	c := &cobra.Command{
		Use:   "new IDENTITY",
		Short: "Make a token, and print it once",
		Long: "Make a token of an identity, and print it. The file has only a hash of it. Give the client " +
			"the token in DISTLOCK_TOKEN, or in a file that DISTLOCK_TOKEN_FILE names. A second token of " +
			"the same identity has the same permissions: to replace a token, make a new one, give it to " +
			"the client, and revoke the old one.",
		Example: "  distlock token new ci --tokens tokens.toml --allow 'team-a/=acquire,observe' --expires 90d\n" +
			"  distlock token new ci --tokens tokens.toml                 # a further token of ci\n" +
			"  distlock token new admin --tokens tokens.toml --allow '*=acquire,observe,break'",
		Args: exact("IDENTITY"),
	}
	f := c.Flags()
	f.StringArrayVar(&allow, "allow", nil, "allow verbs on names: `NAMES=VERBS`. NAMES is team-a/ for all names below it, a name, or *; VERBS are acquire, observe and break; can be repeated")
	f.StringVar(&expires, "expires", "", "the token ends after `D`, such as 90d or 12h (never)")
	f.StringVar(&maxTTL, "max-ttl", "", "the longest TTL of the locks of --allow is `D` (as the store allows)")
	f.StringVar(&maxKeep, "max-keep", "", "the results of run --once, and the spans of limit, are kept for at most `D` (as the store allows)")
	c.RunE = func(c *cobra.Command, args []string) error {
		path, err := a.tokensFile(c)
		if err != nil {
			return err
		}
		permissions, err := permissions(allow, maxTTL, maxKeep)
		if err != nil {
			return err
		}
		var end time.Time
		if expires != "" {
			d, err := span("expires", expires)
			if err != nil {
				return err
			}
			end = time.Now().Add(d)
		}
		secret, t, err := tokens.Add(path, args[0], permissions, end)
		if err != nil {
			return usage("%w", err)
		}
		a.say("the token %s of token:%s: it is printed once, and is not in %s", t.ID, t.Identity, path)
		fmt.Fprintln(a.out, secret)
		return nil
	}
	return c
}

// permissions reads the permissions of a new identity.
func permissions(allow []string, maxTTL, maxKeep string) (out []access.Permission, err error) {
	var ttl, keep time.Duration
	if maxTTL != "" {
		if ttl, err = span("max-ttl", maxTTL); err != nil {
			return nil, err
		}
	}
	if maxKeep != "" {
		if keep, err = span("max-keep", maxKeep); err != nil {
			return nil, err
		}
	}
	if len(allow) == 0 && (ttl > 0 || keep > 0) {
		return nil, usage("--max-ttl and --max-keep belong to --allow")
	}
	for _, text := range allow {
		p, err := tokens.ParseAllow(text)
		if err != nil {
			return nil, usage("--allow: %w", err)
		}
		p.MaxTTL, p.MaxKeep = ttl, keep
		out = append(out, p)
	}
	return out, nil
}

// span reads a duration that may be in days.
func span(flag, text string) (time.Duration, error) {
	d, err := tokens.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, usage("--%s: %.32q is no duration, such as 90s, 12h or 30d", flag, text)
	}
	return d, nil
}

// A tokenJSON is the JSON of a token in the output of token list.
type tokenJSON struct {
	ID       string     `json:"id"`
	Identity string     `json:"identity"`
	Created  *time.Time `json:"created,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"`
	Expired  bool       `json:"expired,omitempty"`
	Allow    []string   `json:"allow,omitempty"`
}

func (a *app) tokenList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List tokens and what they allow",
		Example: "  distlock token list --tokens tokens.toml",
		Args:    exact(),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	c.RunE = func(c *cobra.Command, _ []string) error {
		path, err := a.tokensFile(c)
		if err != nil {
			return err
		}
		content, err := tokens.Read(path)
		if err != nil {
			return usage("%w", err)
		}
		table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		defer func() { _ = table.Flush() }() // it fails only if standard output is closed
		out := json.NewEncoder(a.out)
		if !asJSON && len(content.Tokens) > 0 {
			fmt.Fprintln(table, "ID\tIDENTITY\tCREATED\tEXPIRES\tALLOW")
		}
		for _, t := range content.Tokens {
			one := newTokenJSON(t, content.Rules)
			if asJSON {
				if err := out.Encode(one); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", one.ID, one.Identity, day(t.Created, "-"), until(t.Expires), strings.Join(one.Allow, " "))
		}
		return nil
	}
	return c
}

func newTokenJSON(t tokens.Token, rules []tokens.Rule) tokenJSON {
	one := tokenJSON{ID: t.ID, Identity: "token:" + t.Identity}
	if !t.Created.IsZero() {
		one.Created = &t.Created
	}
	if !t.Expires.IsZero() {
		one.Expires, one.Expired = &t.Expires, !time.Now().Before(t.Expires)
	}
	for _, r := range rules {
		if stem, ok := strings.CutSuffix(r.Identity, "*"); r.Identity == one.Identity || ok && strings.HasPrefix(one.Identity, stem) {
			one.Allow = append(one.Allow, r.Names+"="+r.Verbs.String())
		}
	}
	return one
}

func day(t time.Time, never string) string {
	if t.IsZero() {
		return never
	}
	return t.Local().Format(time.DateOnly)
}

func until(t time.Time) string {
	if !t.IsZero() && !time.Now().Before(t) {
		return day(t, "") + " (expired)"
	}
	return day(t, "never")
}

func (a *app) tokenRevoke() *cobra.Command {
	c := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke tokens",
		Long: "Revoke tokens by their IDs. A server that runs with the file refuses them within a second, " +
			"also for renewals. The locks of their clients end with their TTL.",
		Example: "  distlock token revoke --tokens tokens.toml k7q2m4x9ab",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("ID is missing")
			}
			return nil
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		path, err := a.tokensFile(c)
		if err != nil {
			return err
		}
		for _, id := range args {
			if strings.HasPrefix(id, "dl_") { // it must not be in the history of a shell, and not in a message
				return usage("give the ID of the token, which token list shows, and not the token")
			}
		}
		err = tokens.Revoke(path, args...)
		if err == nil {
			return nil
		}
		if errors.Is(err, tokens.ErrUnknown) || errors.Is(err, tokens.ErrFile) {
			return usage("%w", err)
		}
		return err
	}
	return c
}
