package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

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
			old, isOld := errors.AsType[*OldVersion](err)
			for line := range strings.Lines(got) {
				if isOld && strings.Contains(old.Equivalent, line) {
					continue
				}
				if !strings.HasPrefix(line, filepath.Base(file)+": ") {
					t.Errorf("line does not begin with the file: %q", line)
				}
			}
			strictyamltest.Golden(t, file, got)
		})
	}
}

// TestAccepted checks what each file means.
func TestAccepted(t *testing.T) {
	for _, file := range strictyamltest.Files(t, "accepted") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			p, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			strictyamltest.Golden(t, file, strings.ReplaceAll(summary(p), filepath.Dir(file)+"/", ""))
		})
	}
}

// TestStrict checks that what is a warning otherwise is a mistake, in the same words.
func TestStrict(t *testing.T) {
	for _, file := range strictyamltest.Files(t, "accepted") {
		p, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = LoadStrict(file)
		if len(p.Warnings) == 0 {
			if err != nil {
				t.Errorf("%s has no warnings, but: %v", file, err)
			}
			continue
		}
		for _, w := range p.Warnings {
			what := w[strings.LastIndex(w, ": ")+2:]
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: warning %q is not a mistake in strict mode: %v", file, w, err)
			}
		}
	}
}

// TestOldVersionTranslates checks that the v1alpha2 document that the error shows is valid.
func TestOldVersionTranslates(t *testing.T) {
	_, err := Load("testdata/refused/v1alpha1.yaml")
	old, ok := errors.AsType[*OldVersion](err)
	if !ok {
		t.Fatalf("got %v, want an OldVersion", err)
	}
	if _, err := ParseStrict("translated", []byte(old.Equivalent)); err != nil {
		t.Errorf("%v\nin\n%s", err, old.Equivalent)
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load("testdata/absent.yaml")
	const want = "testdata/absent.yaml: descheduler policy: open testdata/absent.yaml: no such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzParse checks that no bytes make the loader panic, and that a refusal always consists of lines that name the
// file.
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
			out.Kinds()
			return
		}
		if _, isOld := errors.AsType[*OldVersion](err); isOld {
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !strings.HasPrefix(line, "fuzz.yaml: ") {
				t.Fatalf("line does not name the file: %q", line)
			}
		}
	})
}

// summary prints a policy, one item a line.
func summary(p *Policy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "nodes %q\nlimits per node %s, per namespace %s, total %s\ngrace period %s\nkinds %v\n",
		p.Nodes, optional(p.Limits.PerNode), optional(p.Limits.PerNamespace), optional(p.Limits.Total),
		optional(p.GracePeriodSeconds), p.Kinds())
	metrics, err := json.Marshal(p.Metrics)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(&b, "failure events %t, metrics %s\n", p.FailureEvents, metrics)
	fmt.Fprintf(&b, "berth %+v\n", p.Berth)
	for _, profile := range p.Profiles {
		fmt.Fprintf(&b, "profile %s\n", profile.Name)
		for _, s := range slices.Concat(profile.Deschedule, profile.Balance) {
			args, err := json.Marshal(s.Args)
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(&b, "  %s: %s%s\n", s.Name, args, selected(s.Args))
		}
		e := profile.Evictor
		fmt.Fprintf(&b, "  evictor: target nodes %q, labels %q, namespace labels %q\n",
			e.TargetNodes, e.Labels, e.NamespaceLabels)
		fmt.Fprintf(&b, "    priority threshold %s class %q, node fit %s, min replicas %d, min age %s, mandatory %t\n",
			optional(e.PriorityThreshold), e.PriorityClass, optional(e.NodeFit), e.MinReplicas, optional(e.MinPodAge),
			e.MandatoryNoEviction)
		fmt.Fprintf(&b, "    protected %+v, storage classes %q\n", e.Protect, e.StorageClasses)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	return b.String()
}

// selected prints the label selector of a strategy, which has no JSON form.
func selected(args Args) string {
	field := reflect.ValueOf(args).Elem().FieldByName("Labels")
	if !field.IsValid() {
		return ""
	}
	return fmt.Sprintf(", labels %q", field.Interface())
}

func optional[T any](v *T) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}
