package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/strictyaml/strictyamltest"
)

// TestRefused checks the wording of every mistake: one line each, all of them at once.
func TestRefused(t *testing.T) {
	for _, file := range strictyamltest.Files(t, "refused") {
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
			strictyamltest.Golden(t, file, got)
		})
	}
}

// TestAccepted checks what each file resolves to.
func TestAccepted(t *testing.T) {
	for _, file := range strictyamltest.Files(t, "accepted") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(summary(t, c), filepath.Dir(file)+"/", "")
			strictyamltest.Golden(t, file, got)
		})
	}
}

func TestDefaultIsTheMinimalFile(t *testing.T) {
	loaded, err := Load("testdata/accepted/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), loaded); diff != "" {
		t.Errorf("Default() differs from a file with nothing in it (-default +file):\n%s", diff)
	}
}

// TestDefaultMeansTheEnginesDefault checks that the file's defaults and the engine's own name the same plugins in
// the same order with the same weights, and that the engine accepts them.
func TestDefaultMeansTheEnginesDefault(t *testing.T) {
	type plugin struct {
		Name   string
		Weight int32
	}
	list := func(p placement.ProfileConfig) (out []plugin) {
		for _, c := range p.Plugins {
			out = append(out, plugin{c.Name, max(c.Weight, 1)})
		}
		return out
	}
	got := Default().Profiles[0]
	if diff := cmp.Diff(list(placement.DefaultProfile("default-scheduler")), list(got)); diff != "" {
		t.Errorf("profile (-engine +config):\n%s", diff)
	}
	if _, err := placement.NewProfile(got); err != nil {
		t.Error(err)
	}
}

// TestEngineTakesWhatIsAccepted checks that a file that loads never fails later.
func TestEngineTakesWhatIsAccepted(t *testing.T) {
	for _, file := range strictyamltest.Files(t, "accepted") {
		c, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Profiles {
			if _, err := placement.NewProfile(p); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load("testdata/absent.yaml")
	const want = "testdata/absent.yaml: scheduler configuration: open testdata/absent.yaml: no such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzParse checks that no bytes make the loader panic, that a refusal always consists of lines that name the file,
// and that the engine accepts what the loader accepts.
func FuzzParse(f *testing.F) {
	for _, dir := range []string{"refused", "accepted"} {
		for _, file := range strictyamltest.Files(f, dir) {
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
			for _, p := range out.Profiles {
				if _, refused := placement.NewProfile(p); refused != nil {
					t.Fatal(refused)
				}
			}
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !strings.HasPrefix(line, "fuzz.yaml: ") {
				t.Fatalf("line does not name the file: %q", line)
			}
		}
	})
}

// summary prints what a file resolves to: its numbers, then every profile's plugins by point and their arguments.
func summary(t *testing.T, c *Configuration) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "parallelism %d, nodes scored %d%%, backoff %s to %s, profiling %t/%t\nclient %+v\n",
		c.Parallelism, c.PercentageOfNodesToScore, c.PodInitialBackoff, c.PodMaxBackoff,
		c.EnableProfiling, c.EnableContentionProfiling, c.ClientConnection)
	for i, p := range c.Resolved {
		fmt.Fprintf(&b, "profile %s\n", p.SchedulerName)
		fmt.Fprintf(&b, "  engine:%s\n", engine(c.Profiles[i]))
		fmt.Fprintf(&b, "  engine's preemption: %+v\n", c.Profiles[i].Preemption)
		if first := c.Profiles[i].HomeNodesFirst; first != "" {
			fmt.Fprintf(&b, "  home nodes first: %s\n", first)
		}
		for _, e := range c.Profiles[i].Extenders {
			fmt.Fprintf(&b, "  extender: %+v\n", e)
		}
		for _, at := range points {
			fmt.Fprintf(&b, "  %s:%s\n", at, plugins(at, p.Plugins[at]))
		}
		for _, name := range slices.Sorted(maps.Keys(p.Args)) {
			args, err := yaml.Marshal(p.Args[name])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "  %s args\n    %s\n", name,
				strings.ReplaceAll(strings.TrimSpace(string(args)), "\n", "\n    "))
		}
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// engine prints what the engine gets: N for narrowing, F for filtering, S and the weight for scoring, and the
// percentage of nodes to score.
func engine(p placement.ProfileConfig) string {
	var b strings.Builder
	if p.PercentageOfNodesToScore > 0 {
		fmt.Fprintf(&b, " [%d%% of nodes]", p.PercentageOfNodesToScore)
	}
	for _, c := range p.Plugins {
		fmt.Fprintf(&b, " %s", c.Name)
		if c.Points&placement.Narrowing != 0 {
			b.WriteString("/N")
		}
		if c.Points&placement.Filtering != 0 {
			b.WriteString("/F")
		}
		if c.Points&placement.Scoring != 0 {
			fmt.Fprintf(&b, "/S%d", c.Weight)
		}
	}
	return b.String()
}

func plugins(at Point, list []EnabledPlugin) string {
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintf(&b, " %s", p.Name)
		if at == Score {
			fmt.Fprintf(&b, "(%d)", p.Weight)
		}
	}
	return b.String()
}
