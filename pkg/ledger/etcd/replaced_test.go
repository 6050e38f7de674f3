package etcd_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// noticeWithin bounds how long a replaced store may go unnoticed: the interval between two checks of a watch, and
// the same again for a busy machine to reconnect.
const noticeWithin = 30 * time.Second

// A running member notices when etcd is replaced, whether etcd comes back empty, from a backup, or as another
// cluster; and it leaves a mark for members that start later.
func TestReplacedStoreIsDetected(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, dir string) (token string){
		"wiped": func(t *testing.T, dir string) string {
			remove(t, filepath.Join(dir, "data"))
			return ""
		},
		"restored": func(t *testing.T, dir string) string {
			remove(t, filepath.Join(dir, "data"))
			if err := os.CopyFS(filepath.Join(dir, "data"), os.DirFS(filepath.Join(dir, "backup"))); err != nil {
				t.Fatal(err)
			}
			return ""
		},
		"restored and further than before": func(t *testing.T, dir string) string {
			restoreAndWrite(t, dir, func(client *clientv3.Client) {
				for range 100 {
					set(t, client, "/another-tenant", []byte("v"))
				}
			})
			return ""
		},
		"restored and begun anew since": func(t *testing.T, dir string) string {
			restoreAndWrite(t, dir, func(client *clientv3.Client) {
				value, err := identity.EncodeGeneration(identity.Generation{Number: 2, Open: true})
				if err != nil {
					t.Fatal(err)
				}
				for range 100 {
					set(t, client, "/berth/"+identity.KeyGeneration, value)
				}
			})
			return ""
		},
		"another cluster": func(t *testing.T, dir string) string {
			remove(t, filepath.Join(dir, "data"))
			return "another"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testReplacedStore(t, replace, name == "restored and begun anew since")
		})
	}
}

// restoreAndWrite restores the backup of an etcd, and makes another client write to it before the tests' own members
// can.
func restoreAndWrite(t *testing.T, dir string, write func(*clientv3.Client)) {
	t.Helper()
	elsewhere := t.TempDir()
	if err := os.CopyFS(filepath.Join(elsewhere, "data"), os.DirFS(filepath.Join(dir, "backup"))); err != nil {
		t.Fatal(err)
	}
	server := launch(t, elsewhere, "", true)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + filepath.Join(elsewhere, "c")}, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	write(client)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	server.Close()
	remove(t, filepath.Join(dir, "data"))
	if err := os.CopyFS(filepath.Join(dir, "data"), os.DirFS(filepath.Join(elsewhere, "data"))); err != nil {
		t.Fatal(err)
	}
}

func set(t *testing.T, client *clientv3.Client, key string, value []byte) {
	t.Helper()
	if _, err := client.Put(t.Context(), key, string(value)); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

func testReplacedStore(t *testing.T, replace func(t *testing.T, dir string) string, handled bool) {
	dir := t.TempDir()
	server := launch(t, dir, "", true)
	endpoint := "unix://" + filepath.Join(dir, "c")
	open := func() *etcd.Store { return connect(t, endpoint) }
	store := open()
	write := func(key string) {
		if _, err := store.Commit(t.Context(), ledger.Txn{Puts: []ledger.Put{{Key: key, Value: []byte("v")}}}); err != nil {
			t.Fatal(err)
		}
	}
	first, err := identity.FirstGeneration(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if err := os.CopyFS(filepath.Join(dir, "backup"), os.DirFS(filepath.Join(dir, "data"))); err != nil {
		t.Fatal(err)
	}
	server = launch(t, dir, "", true)
	for range 20 { // writes after the backup, and before: enough to be distinguishable from an empty store
		write("later")
	}
	followed := make(chan error, 1)
	batches := make(chan replica.Batch, 1)
	go func() { followed <- replica.Follow(t.Context(), store, batches) }()
	<-batches
	write("seen")
	for b := range batches { // the watch has started, and has delivered this
		if len(b.Events.Events) > 0 {
			break
		}
	}
	go func() {
		for range batches {
			continue // a member reads what it is sent
		}
	}()
	server.Close()
	token := replace(t, dir)
	server = launch(t, dir, token, true)
	t.Cleanup(func() { server.Close() })

	var replaced *ledger.StoreReplacedError
	select {
	case err := <-followed:
		close(batches)
		if !errors.As(err, &replaced) {
			t.Fatalf("following ended with %v, want *ledger.StoreReplacedError", err)
		}
		t.Log(replaced)
	case <-time.After(noticeWithin):
		t.Fatalf("nobody has noticed within %s", noticeWithin)
	}
	if _, err := store.Commit(t.Context(), ledger.Txn{Puts: []ledger.Put{{Key: "k"}}}); !errors.As(err, &replaced) {
		t.Errorf("a transaction after that: %v, want *ledger.StoreReplacedError", err)
	}
	if _, _, err := store.List(t.Context(), ""); !errors.As(err, &replaced) {
		t.Errorf("a list after that: %v, want *ledger.StoreReplacedError", err)
	}
	leavesAMark(t, open(), handled)
}

// connect opens a store until the end of the test.
func connect(t *testing.T, endpoint string) *etcd.Store {
	t.Helper()
	store, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}, Prefix: "/berth"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// leavesAMark checks that the generation is closed, with the reason, unless a later one has begun.
func leavesAMark(t *testing.T, store *etcd.Store, handled bool) {
	t.Helper()
	kvs, _, err := store.List(t.Context(), identity.KeyGeneration)
	if err != nil || len(kvs) != 1 {
		t.Fatalf("%d generations (%v), want the mark that the member has left", len(kvs), err)
	}
	g, err := identity.DecodeGeneration(kvs[0])
	if err != nil || g.Open != handled || (g.Reason == "") != handled {
		t.Errorf("generation %+v, %v: want it closed, and why, unless a later one has begun: %t", g, err, handled)
	}
}

// A mere interruption is not mistaken for a replaced store.
func TestStoreThatWasAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := launch(t, dir, "", true)
	t.Cleanup(func() { server.Close() })
	store, err := etcd.Open(t.Context(), etcd.Config{
		Endpoints: []string{"unix://" + filepath.Join(dir, "c")}, Prefix: "/berth",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	batches := make(chan replica.Batch, 16)
	followed := make(chan error, 1)
	go func() { followed <- replica.Follow(t.Context(), store, batches) }()
	if b := <-batches; b.Store == 0 {
		t.Errorf("the listing does not name its store: %+v", b)
	}
	for n := range 3 {
		server.Close()
		server = launch(t, dir, "", true)
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{"unix://" + filepath.Join(dir, "c")}, Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Put(t.Context(), "/berth/k", "v")
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		for at := int64(0); at < r.Header.Revision; {
			select {
			case b := <-batches:
				at = b.Events.Revision
			case err := <-followed:
				t.Fatalf("after restart %d: %v", n, err)
			case <-time.After(noticeWithin):
				t.Fatalf("restart %d: not followed to revision %d within %s", n, r.Header.Revision, noticeWithin)
			}
		}
	}
}
