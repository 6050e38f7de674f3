package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestValidateNamesTheField(t *testing.T) {
	valid := Config{Controllers: "all", KWOK: true}
	if err := valid.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	older := Config{Controllers: "all", KWOK: true, Kubernetes: "1.35"}
	if err := older.Validate(); err != nil {
		t.Errorf("an older version is refused: %v", err)
	}
	for want, config := range map[string]Config{
		"node lease 5s":          {Controllers: "all", NodeLease: 5 * time.Second},
		"node lease 10.5s":       {Controllers: "all", NodeLease: 10500 * time.Millisecond},
		`controllers ""`:         {},
		"requests in flight -1":  {Controllers: "all", MaxRequests: -1},
		"want none without KWOK": {Controllers: "all", Stages: "file"},
		`kubernetes "1.20"`:      {Controllers: "all", Kubernetes: "1.20"},
		`config "a/v1"`:          {Controllers: "all", RuntimeConfig: "a/v1"},
		`config "a/v1=off"`:      {Controllers: "all", RuntimeConfig: "a/v1=off"},
		`gates "A=true,B"`:       {Controllers: "all", FeatureGates: "A=true,B"},
	} {
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want it to contain %q", err, want)
		}
	}
}

func TestNodeLifecycleNeedsHeartbeats(t *testing.T) {
	for want, config := range map[string]Config{
		"*":                            {Controllers: "all", KWOK: true},
		"*,-node-lifecycle-controller": {Controllers: "all"},
		"job-controller":               {Controllers: "job-controller"},
	} {
		if got := config.controllerList(); got != want {
			t.Errorf("%+v runs %q, want %q", config, got, want)
		}
	}
}

func TestKWOKStages(t *testing.T) {
	dir := t.TempDir()
	extra := filepath.Join(dir, "extra.yaml")
	if err := os.WriteFile(extra, []byte("kind: Stage\nmetadata: {name: mine}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kwok", "kwok.yaml")
	if err := writeKWOKConfig(path, extra); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(content), "\n---\n")
	if len(documents) != 6 {
		t.Fatalf("there are %d documents, want the options, four stages and one more", len(documents))
	}
	for i, want := range []string{
		"KwokConfiguration", "node-initialize", readyDelay, completeDelay, deleteDelay, "mine",
	} {
		if !strings.Contains(documents[i], want) {
			t.Errorf("document %d has no %q:\n%s", i, want, documents[i])
		}
	}
}
