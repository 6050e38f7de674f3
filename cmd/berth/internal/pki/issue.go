package pki

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/ca"
)

// The files in the folder of a member, besides the certificate of its authority.
const tlsCert, tlsKey = "tls.crt", "tls.key"

// storeMembers is how many etcd and NATS servers the certificates name: the most that the chart deploys.
const storeMembers = 5

// SecretsFile is the name of the manifest that Issue writes, with every secret that the manifests of deploy/ mount.
const SecretsFile = "secrets.yaml"

// Installation describes what to make certificates for.
type Installation struct {
	// Dir holds the two authorities, a folder for each member, and SecretsFile. An existing authority is used again;
	// everything else is replaced.
	Dir string
	// Name is the first part of every name, as in the manifests; Namespace is that of the secrets.
	Name, Namespace string
	// Hosts are additional names and addresses of every server, such as 127.0.0.1.
	Hosts []string
	// Life is how long certificates are valid.
	Life time.Duration
	// AcceptServicesAuthority makes peers of the stores also accept each other by certificates of the services'
	// authority, as they did before peers had their own authority. It is meant for the duration of that upgrade.
	AcceptServicesAuthority bool
}

// peersDir is the folder of the authority of the stores' peers, below Installation.Dir.
const peersDir = "peers"

// Validate reports the first field that is not valid, by its flag.
func (i Installation) Validate() error {
	switch {
	case i.Dir == "":
		return fmt.Errorf("--out: empty: want a directory")
	case i.Name == "":
		return fmt.Errorf("--name: empty: want the first part of all names, such as berth")
	case i.Namespace == "":
		return fmt.Errorf("--namespace: empty: want a namespace, such as berth-system")
	case i.Life <= 0:
		return fmt.Errorf("--validity: %s: want more than 0", i.Life)
	}
	return nil
}

// services lists the services; each has a certificate that is both a client's and a server's.
var services = []string{"queue", "scheduler", "binder", "descheduler", "single"}

// members returns the members with a certificate of the services' authority, by the middle part of their secret's
// name.
func (i Installation) members() map[string]ca.Subject {
	all := map[string]ca.Subject{
		// etcd's administrator must have exactly this name.
		"root":       {Name: "root", Hosts: []string{i.Name + "-root"}},
		"prometheus": {Name: "prometheus"},
		// observer is for operators' commands that only read; NATS identifies it by the host.
		"observer": {Name: i.Name + "-observer", Hosts: []string{i.Name + "-observer"}},
	}
	for _, s := range services {
		own := i.Name + "-" + s
		all[s] = ca.Subject{Name: own, Hosts: append([]string{
			own, own + "." + i.Namespace + ".svc", i.Name + "." + i.Namespace + ".svc",
		}, i.Hosts...)}
	}
	for _, s := range stores {
		all[s] = i.store(s)
	}
	return all
}

// stores have two certificates: one for clients, and one of the peers' authority for each other.
var stores = []string{"etcd", "nats"}

// peers returns the members with a certificate of the peers' authority, by the middle part of their secret's name.
func (i Installation) peers() map[string]ca.Subject {
	all := map[string]ca.Subject{}
	for _, s := range stores {
		all[s+"-peer"] = i.store(s)
	}
	return all
}

// store returns the member that stands for all members of a store, which share a certificate. etcd identifies a peer
// by the common name, NATS by the DNS name of a route.
func (i Installation) store(name string) ca.Subject {
	own := i.Name + "-" + name
	hosts := []string{own, own + "." + i.Namespace + ".svc"}
	for n := range storeMembers {
		pod := fmt.Sprintf("%s-%d.%s", own, n, own)
		hosts = append(hosts, pod, pod+"."+i.Namespace+".svc", pod+"."+i.Namespace+".svc.cluster.local")
	}
	return ca.Subject{Name: own, Hosts: append(hosts, i.Hosts...)}
}

// Issue makes every certificate and writes them as files and as secrets: first the authorities, then each member's
// folder, and SecretsFile last, so that a manifest is complete. A crash leaves new files next to old ones, all of them
// valid; Issue may be repeated.
func Issue(i Installation, now time.Time) error {
	if err := i.Validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(i.Dir, 0o700); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	// Both authorities first: without one of them nothing is replaced.
	clients, peers, err := i.issuers(now)
	if err != nil {
		return err
	}
	var secrets bytes.Buffer
	for _, set := range []struct {
		by      issuer
		members map[string]ca.Subject
	}{{clients, i.members()}, {peers, i.peers()}} {
		for _, name := range slices.Sorted(maps.Keys(set.members)) {
			files, err := set.by.files(set.members[name], now, i.Life)
			if err != nil {
				return err
			}
			if err := i.write(&secrets, name, files); err != nil {
				return err
			}
		}
	}
	return ca.WriteFile(filepath.Join(i.Dir, SecretsFile), secrets.Bytes())
}

// issuer is an authority, with the additional certificates that its members show and accept.
type issuer struct {
	ca.Authority
	// shown follows each certificate in tls.crt, and accepted follows the authority in ca.crt.
	shown, accepted []*x509.Certificate
}

// issuers opens the authority of services and that of the stores' peers.
func (i Installation) issuers(now time.Time) (clients, peers issuer, err error) {
	if clients.Authority, err = ca.Open(i.Dir, i.Name+"-ca", now); err != nil {
		return clients, peers, fmt.Errorf("--out: %w", err)
	}
	if peers.Authority, err = ca.Open(filepath.Join(i.Dir, peersDir), i.Name+"-peers-ca", now); err != nil {
		return clients, peers, fmt.Errorf("--out: %w", err)
	}
	if !i.AcceptServicesAuthority {
		return clients, peers, nil
	}
	bridge, err := peers.SignedBy(clients.Authority, now)
	peers.shown, peers.accepted = []*x509.Certificate{bridge}, []*x509.Certificate{clients.Cert}
	return clients, peers, err
}

// files returns a member's files, by name.
func (s issuer) files(m ca.Subject, now time.Time, life time.Duration) (map[string][]byte, error) {
	made, keyPEM, err := s.Issue(m, now, life)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		ca.CertFile: ca.Encode(append([]*x509.Certificate{s.Cert}, s.accepted...)...),
		tlsCert:     ca.Encode(append([]*x509.Certificate{made}, s.shown...)...),
		tlsKey:      keyPEM,
	}, nil
}

// write writes a member's files to its folder, and adds its secret to the manifest.
func (i Installation) write(secrets *bytes.Buffer, name string, files map[string][]byte) error {
	for file, content := range files {
		if err := ca.WriteFile(filepath.Join(i.Dir, name, file), content); err != nil {
			return err
		}
	}
	raw, err := yaml.Marshal(i.secret(name, files))
	if err != nil {
		return err
	}
	secrets.WriteString("---\n")
	secrets.Write(raw)
	return nil
}

// secret returns a secret in cert-manager's format, so that either may make it.
func (i Installation) secret(member string, files map[string][]byte) corev1.Secret {
	return corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: i.Name + "-" + member + "-tls", Namespace: i.Namespace,
			Labels: map[string]string{"app.kubernetes.io/part-of": "berth"},
		},
		Type: corev1.SecretTypeTLS, Data: files,
	}
}
