package pgo

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shipped is the profile that builds use.
const shipped = "../../../../../cmd/berth/default.pgo"

// read parses a profile.
func read(t *testing.T, path string) *profile.Profile {
	t.Helper()
	p, err := readAll([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// asCompiled returns what the compiler makes of a profile, a line for each call, sorted.
func asCompiled(t *testing.T, p *profile.Profile) []string {
	t.Helper()
	data, err := encode(p)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "in.pgo")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return preprocess(t, path)
}

// preprocess runs the tool with which the go command prepares a profile for the compiler.
func preprocess(t *testing.T, path string) []string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "out")
	tool := exec.CommandContext(t.Context(), "go", "tool", "preprofile", "-i", path, "-o", to)
	if out, err := tool.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")[1:] // the first names the format
	var calls []string
	for three := range slices.Chunk(lines, 3) {
		calls = append(calls, strings.Join(three, " "))
	}
	slices.Sort(calls)
	return calls
}

// random returns a profile of few functions, so that calls meet: with inlined calls, recursion and the same function at
// several addresses.
func random(seed uint64) *profile.Profile {
	r := rand.New(rand.NewPCG(seed, seed))
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
	}
	for i := range 6 {
		name := fmt.Sprintf("example.com/m.f%d[go.shape.int]", i)
		p.Function = append(p.Function, &profile.Function{
			ID: uint64(i + 1), Name: name, SystemName: name, StartLine: int64(10 * (i + 1)),
		})
	}
	for i := range 12 {
		l := &profile.Location{ID: uint64(i + 1), Address: uint64(0x1000 * (i + 1))}
		for range 1 + r.IntN(3) {
			f := p.Function[r.IntN(len(p.Function))]
			l.Line = append(l.Line, profile.Line{Function: f, Line: f.StartLine + int64(r.IntN(3))})
		}
		p.Location = append(p.Location, l)
	}
	for range 30 {
		s := &profile.Sample{Value: []int64{int64(1 + r.IntN(5)), 0}}
		for range 1 + r.IntN(5) {
			s.Location = append(s.Location, p.Location[r.IntN(len(p.Location))])
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// The compiler finds the same calls with the same weights in the condensed profile as in the whole one.
func TestTheCompilerReadsTheSame(t *testing.T) {
	for seed := range uint64(20) {
		p := random(seed)
		condensed, err := Condense(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := asCompiled(t, condensed), asCompiled(t, p); !slices.Equal(got, want) {
			t.Errorf("seed %d: the compiler reads\n%s\nand of the whole profile\n%s", seed, strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
	}
}

// The hottest calls stay, until they have the share that is asked for, and the same profile makes the same file.
func TestTheHottestCallsStay(t *testing.T) {
	for seed := range uint64(20) {
		whole, err := Condense(random(seed), 1)
		if err != nil {
			t.Fatal(err)
		}
		some, err := Condense(random(seed), 0.7)
		if err != nil {
			t.Fatal(err)
		}
		var all, kept int64
		for i, s := range whole.Sample {
			all += s.Value[0]
			if i < len(some.Sample) {
				kept += some.Sample[i].Value[0]
			}
			if i > 0 && s.Value[0] > whole.Sample[i-1].Value[0] {
				t.Errorf("seed %d: call %d is hotter than the one before", seed, i)
			}
		}
		last := some.Sample[len(some.Sample)-1].Value[0]
		if float64(kept) < 0.7*float64(all) || float64(kept-last) >= 0.7*float64(all) {
			t.Errorf("seed %d: %d of %d samples are kept, %d of them in the last call", seed, kept, all, last)
		}
		first, err := encode(some)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Condense(random(seed), 0.7)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := encode(again); err != nil || !slices.Equal(first, second) {
			t.Errorf("seed %d: two files differ (%v)", seed, err)
		}
	}
}

func TestWhatIsNoProfileIsRefused(t *testing.T) {
	heap := random(1)
	heap.SampleType[0].Type = "alloc_objects"
	old := random(1)
	old.Function[0].StartLine = 0
	leaves := random(1)
	leaves.Sample = nil
	for want, p := range map[string]*profile.Profile{"processor profile": heap, "Go 1.20": old, "no samples": leaves} {
		if _, err := Condense(p, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want one about %q", err, want)
		}
	}
}

// What is in git is small, was made by this program, and is about Berth: its services, and the stores that berth up has
// inside.
func TestTheShippedProfile(t *testing.T) {
	info, err := os.Stat(shipped)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxBytes {
		t.Errorf("%d bytes, want at most %d", info.Size(), maxBytes)
	}
	p := read(t, shipped)
	again, err := Condense(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	calls := preprocess(t, shipped)
	if got := asCompiled(t, again); !slices.Equal(got, calls) {
		t.Errorf("%s is not condensed: run make pgo", shipped)
	}
	for _, part := range []string{
		"/berth/pkg/state", "/berth/pkg/events", "/berth/pkg/ledger", "/berth/pkg/placement", "/berth/services/queue",
		"/berth/services/scheduler", "/berth/services/binder", "nats-server/v2/server", "etcd/server/v3", "runtime.",
	} {
		if !slices.ContainsFunc(calls, func(c string) bool { return strings.Contains(c, part) }) {
			t.Errorf("%s: no call of %s: run make pgo", shipped, part)
		}
	}
}
