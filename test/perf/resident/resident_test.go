package resident

import (
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

const smaps = `00400000-06f00000 r-xp 00000000 08:01 42                         /opt/berth bin/berth
Size:              109568 kB
Rss:                40000 kB
Pss:                39000 kB
VmFlags: rd ex mr mw me
06f00000-07100000 rw-p 06b00000 08:01 42                         /opt/berth bin/berth
Rss:                 2000 kB
c000000000-c004000000 rw-p 00000000 00:00 0
Rss:                30000 kB
7f0000000000-7f0010000000 r--s 00000000 08:01 43                 /data/etcd/member/snap/db
Rss:                 5000 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]
Rss:                   20 kB
`

func TestMappingsAreOfTheirKind(t *testing.T) {
	got, err := parse(strings.NewReader(smaps), "/opt/berth bin/berth")
	want := Memory{Program: 42000 << 10, Files: 5000 << 10, Anonymous: 30020 << 10, Now: 77020 << 10}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := parse(strings.NewReader("Rss: many kB\n"), ""); err == nil {
		t.Error("an amount that is no number is accepted")
	}
}

// This process has a program, a heap, and never had less than now, apart from what grows while it is read.
func TestOfThisProcess(t *testing.T) {
	m, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if m.Program <= 0 || m.Anonymous <= 0 || m.Now != m.Program+m.Files+m.Anonymous {
		t.Errorf("%+v, want a program, anonymous memory, and their sum", m)
	}
	if m.Most < m.Now*9/10 {
		t.Errorf("%+v: the most ever is below what is there now", m)
	}
	twice, err := Of(os.Getpid(), os.Getpid())
	if err != nil || twice.Program != 2*m.Program {
		t.Errorf("%+v, %v: want twice the program of %+v", twice, err, m)
	}
}

// The heap of a running program is read as it serves it.
func TestHeapOfThisProcess(t *testing.T) {
	const size = 16 << 20 // far above the distance between two samples
	held := make([]byte, size)
	server := httptest.NewServer(http.HandlerFunc(pprof.Index))
	defer server.Close()
	address := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	parts, err := Heap(t.Context(), address(server))
	if err != nil {
		t.Fatal(err)
	}
	if last := parts[len(parts)-1]; last.Name != Rest || last.Bytes < size {
		t.Errorf("%+v, want %q last, with at least %d bytes", parts, Rest, size)
	}
	runtime.KeepAlive(held)
	without := httptest.NewServer(http.NotFoundHandler())
	defer without.Close()
	if _, err := Heap(t.Context(), address(without)); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a program without profiles: %v", err)
	}
}

// What a library allocates belongs to the part that called it, innermost first.
func TestHeapIsOfItsCaller(t *testing.T) {
	heap := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_objects"}, {Type: liveBytes}}}
	sample := func(bytes int64, functions ...string) {
		s := &profile.Sample{Value: []int64{1, bytes}}
		for _, name := range functions {
			line := profile.Line{Function: &profile.Function{Name: name}}
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{line}})
		}
		heap.Sample = append(heap.Sample, s)
	}
	sample(100, "bytes.Clone", "github.com/nats-io/nats-server/v2/server.(*fileStore).writeMsg")
	sample(10, "google.golang.org/protobuf/proto.Unmarshal", berth+"pkg/ledger/etcd.(*Store).Watch",
		berth+"services/binder.Run")
	sample(7, "slices.Grow", berth+"services/binder/commit.do", berth+"pkg/driver.Run")
	sample(3, "runtime.malg", "runtime.newproc")
	parts, err := byPart(heap)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, p := range parts {
		if p.Bytes > 0 {
			got[p.Name] = p.Bytes
		}
	}
	if diff := cmp.Diff(map[string]int64{"embedded NATS": 100, "ledger": 10, "binder": 7, Rest: 3}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := byPart(&profile.Profile{}); err == nil {
		t.Error("a profile without live bytes is accepted")
	}
}
