package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestRefused holds the wording of every mistake: one line each, all of them at once.
func TestRefused(t *testing.T) {
	for _, file := range inputs(t, "refused") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := Load(file)
			if err == nil {
				t.Fatal("accepted")
			}
			got := strings.ReplaceAll(err.Error(), filepath.Dir(file)+"/", "") + "\n"
			for line := range strings.Lines(got) {
				if !strings.HasPrefix(line, filepath.Base(file)+": ") {
					t.Errorf("line does not begin with the file: %q", line)
				}
			}
			golden(t, file, got)
		})
	}
}

// TestAccepted shows what each file means.
func TestAccepted(t *testing.T) {
	for _, file := range inputs(t, "accepted") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			p, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, strings.ReplaceAll(picture(p), filepath.Dir(file)+"/", ""))
		})
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load("testdata/absent.yaml")
	const want = "testdata/absent.yaml: descheduler policy: open testdata/absent.yaml: no such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzParse: no bytes make the loader panic, and a refusal is always made of lines that
// name the file.
func FuzzParse(f *testing.F) {
	for _, dir := range []string{"refused", "accepted"} {
		for _, file := range inputs(f, dir) {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Parse("fuzz.yaml", data)
		if (out == nil) == (err == nil) {
			t.Fatalf("result %v, error %v: want exactly one", out, err)
		}
		if err == nil {
			out.Kinds()
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !strings.HasPrefix(line, "fuzz.yaml: ") {
				t.Fatalf("line does not name the file: %q", line)
			}
		}
	})
}

func inputs(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no inputs in testdata/%s: %v", dir, err)
	}
	return files
}

func golden(t *testing.T, input, got string) {
	t.Helper()
	file := strings.TrimSuffix(input, ".yaml") + ".golden"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update to accept):\n%s", file, diff)
	}
}

// picture prints a policy, one thing a line.
func picture(p *Policy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "nodes %q\nlimits per node %s, per namespace %s, total %s\ngrace period %s\nkinds %v\n",
		p.Nodes, optional(p.Limits.PerNode), optional(p.Limits.PerNamespace), optional(p.Limits.Total),
		optional(p.GracePeriodSeconds), p.Kinds())
	for _, profile := range p.Profiles {
		fmt.Fprintf(&b, "profile %s\n", profile.Name)
		for _, s := range profile.Deschedule {
			fmt.Fprintf(&b, "  %s: labels %q, namespaces %+v, prefer %t, excluded %q, included %q\n",
				s.Name, s.NodeTaints.Labels, s.NodeTaints.Namespaces, s.NodeTaints.PreferNoSchedule,
				s.NodeTaints.Excluded, s.NodeTaints.Included)
		}
		e := profile.Evictor
		fmt.Fprintf(&b, "  evictor: target nodes %q, labels %q, namespace labels %q\n",
			e.TargetNodes, e.Labels, e.NamespaceLabels)
		fmt.Fprintf(&b, "    priority threshold %s class %q, node fit %t, min replicas %d, min age %s, mandatory %t\n",
			optional(e.PriorityThreshold), e.PriorityClass, e.NodeFit, e.MinReplicas, optional(e.MinPodAge),
			e.MandatoryNoEviction)
		fmt.Fprintf(&b, "    protected %+v, storage classes %q\n", e.Protect, e.StorageClasses)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	return b.String()
}

func optional[T any](v *T) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}
