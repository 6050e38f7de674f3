package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// found are the first groups of all matches.
func found(t *testing.T, form, text string, least int) []string {
	t.Helper()
	var all []string
	for _, m := range regexp.MustCompile(form).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	if len(all) < least {
		t.Fatalf("%s: %d matches: want at least %d; has the source changed its form?", form, len(all), least)
	}
	return all
}

// TestEveryKindOfDecisionHasOneAuthor: NATS refuses a new kind until a service is given the right to publish it, and
// two authors of one kind could not be distinguished.
func TestEveryKindOfDecisionHasOneAuthor(t *testing.T) {
	rights := read(t, "deploy/helm/berth/files/nats-permissions.conf")
	for _, kind := range found(t, `DecisionKind = "([a-z-]+)"`, read(t, "pkg/events/decision.go"), 14) {
		if n := strings.Count(rights, `"decisions.*.`+kind+`"`); n != 1 {
			t.Errorf("%d users may say %s: want 1", n, kind)
		}
	}
}

// storesOf is the manifest that has the configuration of NATS as it is rendered.
const storesOf = "deploy/k8s/components/stores/stores.yaml"

// TestEverySubjectIsGiven: every subject has a service that may subscribe to it.
func TestEverySubjectIsGiven(t *testing.T) {
	rights := read(t, storesOf)
	subscribed := strings.Join(found(t, `(?s)subscribe: \[(.*?)\]`, rights, 5), " ")
	for _, subject := range found(t, `Subject[A-Za-z]+ *= "([a-z.]+)"`, read(t, "pkg/events/work/work.go"), 5) {
		if strings.HasSuffix(subject, ".") {
			subject += "*"
		}
		if !strings.Contains(subscribed, `"`+subject+`"`) {
			t.Errorf("nobody may hear %s", subject)
		}
	}
}

// TestTheStreamsAnswerRequestsOnly: an account that could subscribe in the account of the streams could make NATS
// deliver records there to a subject of its choice. And to an account that does not import this request NATS gives an
// API of its own, which answers in addition to that of the streams' account.
func TestTheStreamsAnswerRequestsOnly(t *testing.T) {
	rights := read(t, storesOf)
	_, account, _ := strings.Cut(rights, "berth-log {")
	account, _, ok := strings.Cut(account, "berth-queue {")
	if !ok || !strings.Contains(account, `{ service: "$JS.API.INFO" }`) {
		t.Fatal("there is no account of the streams; has the configuration changed its form?")
	}
	if strings.Contains(account, "{ stream:") || strings.Contains(account, "imports:") {
		t.Errorf("the account of the streams has more than users and exports of services:\n%s", account)
	}
	users := strings.Count(rights, "user: berth-") - 1 // without the administrator, who is in that account
	const api = `{ service: { account: berth-log, subject: "$JS.API.INFO" } }`
	if n := strings.Count(rights, api); n != users {
		t.Errorf("%d accounts import $JS.API.INFO: want %d", n, users)
	}
	if n := strings.Count(rights, "stream: { account: berth-log"); n > 0 {
		t.Errorf("%d accounts hear what is published in the account of the streams", n)
	}
}

// operators are keys that operators write, as etcd's root, and no service.
var operators = []string{"pause/"}

// TestEveryKeyOfTheLedgerHasAWriter: a new one is refused by etcd until a role has it.
func TestEveryKeyOfTheLedgerHasAWriter(t *testing.T) {
	roles := read(t, "deploy/helm/berth/files/etcd-roles.yaml")
	keys := ""
	for _, file := range []string{
		"keys.go", "roster/member.go", "registry/term.go", "identity/generation.go", "pause/pause.go",
	} {
		keys += read(t, "pkg/ledger/"+file)
	}
	for _, key := range found(t, `(?:Prefix|Key)[A-Za-z]* *= "([a-z/]+)"`, keys, 12) {
		top, _, below := strings.Cut(key, "/")
		if below {
			top += "/"
		}
		if slices.Contains(operators, top) {
			continue
		}
		if !regexp.MustCompile(`[\[ ]` + top + `(?:[a-z]+/)?[,\]]`).MatchString(roles) {
			t.Errorf("nobody may write %s", key)
		}
	}
}
