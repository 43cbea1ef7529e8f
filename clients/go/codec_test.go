package tarry

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

type vector struct {
	About       string            `json:"about"`
	Part        string            `json:"part"`
	ContentType string            `json:"content_type"`
	Body        []byte            `json:"body_base64"`
	Nonce       []byte            `json:"nonce_base64"`
	IsSteady    bool              `json:"is_steady"`
	Encoded     []byte            `json:"encoded_base64"`
	EncodedType string            `json:"encoded_type"`
	Stored      map[string][]byte `json:"stored"`
	Error       string            `json:"error"`
	Context     *string           `json:"context"`
	NoKeys      bool              `json:"no_keys"`
	NoStore     bool              `json:"no_store"`
	Inflated    int               `json:"inflated"`
}

type vectors struct {
	Current string              `json:"current"`
	Keys    map[string][]byte   `json:"keys"`
	Context string              `json:"context"`
	Vectors []vector            `json:"vectors"`
	Decodes []vector            `json:"decodes"`
	Errors  []vector            `json:"errors"`
	Outputs map[string][]vector `json:"outputs"`
}

type memoryStore map[string][]byte

func (m memoryStore) Put(name string, data []byte) error { m[name] = data; return nil }
func (m memoryStore) Delete(name string) error           { delete(m, name); return nil }
func (m memoryStore) Get(name string) ([]byte, error) {
	if data, is := m[name]; is {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func readVectors(t *testing.T) *vectors {
	t.Helper()
	text, err := os.ReadFile("../conformance/codec.json")
	if err != nil {
		t.Skip("not run: the vectors are not here")
	}
	var found vectors
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	return &found
}

func (v *vectors) codec(t *testing.T, one *vector) *Codec {
	t.Helper()
	made := &Codec{Gzip: &Gzip{Inflated: one.Inflated}, Context: v.Context, ClaimCheck: &ClaimCheck{Store: memoryStore(one.Stored)}}
	if one.Context != nil {
		made.Context = *one.Context
	}
	if one.NoStore {
		made.ClaimCheck = nil
	}
	if !one.NoKeys {
		var err error
		if made.AesGcm, err = NewAesGcm(v.Current, v.Keys); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

func TestCodecEncodesAsEveryClientDoes(t *testing.T) {
	found := readVectors(t)
	for _, one := range found.Vectors {
		data, kind, err := found.codec(t, &one).encode(one.Body, one.ContentType, one.Part, one.IsSteady, one.Nonce)
		if err != nil || !bytes.Equal(data, one.Encoded) || kind != one.EncodedType {
			t.Errorf("%s: %x, %s, %v", one.About, data, kind, err)
		}
	}
}

func TestCodecDecodesWhatEveryClientEncodes(t *testing.T) {
	found := readVectors(t)
	all := append(found.Vectors, found.Decodes...)
	for _, outputs := range found.Outputs {
		all = append(all, outputs...)
	}
	for _, one := range all {
		data, kind, _, err := found.codec(t, &one).decode(one.Encoded, one.EncodedType, one.Part)
		if err != nil || !bytes.Equal(data, one.Body) || kind != one.ContentType {
			t.Errorf("%s: %x, %s, %v", one.About, data, kind, err)
		}
	}
}

func TestCodecReportsWhatIsWrong(t *testing.T) {
	found := readVectors(t)
	for _, one := range found.Errors {
		_, _, _, err := found.codec(t, &one).decode(one.Encoded, one.EncodedType, one.Part)
		if err == nil || !errors.Is(err, ErrCodec) || err.Error() != "tarry: codec: "+one.Error {
			t.Errorf("%s: %v", one.About, err)
		}
	}
}

func TestOnlyWhatBecomesSmallerIsCompressed(t *testing.T) {
	mine, random := &Codec{Gzip: &Gzip{Above: 100}}, make([]byte, 200)
	_, _ = rand.Read(random)
	for _, data := range [][]byte{bytes.Repeat([]byte("a"), 99), random} {
		if out, kind, err := mine.Encode(data, "text/plain"); err != nil || !bytes.Equal(out, data) || kind != "text/plain" {
			t.Error(kind, err)
		}
	}
	if _, kind, err := mine.Encode(bytes.Repeat([]byte("a"), 100), "text/plain"); err != nil || kind != encodedType+"; steps=gzip" {
		t.Error(kind, err)
	}
}

func TestLargeBodiesAreStoredAndDeleted(t *testing.T) {
	place := t.TempDir()
	mine := &Codec{ClaimCheck: &ClaimCheck{Store: DirectoryStore(place), Above: 20}}
	data, kind, err := mine.Encode([]byte("a body that is longer"), "text/plain")
	files, _ := os.ReadDir(place)
	if err != nil || len(files) != 1 || files[0].Name() != string(data) || kind != encodedType+"; steps=claim-check" {
		t.Fatal(files, kind, err)
	}
	if info, err := files[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	job := Job{Body: data, ContentType: kind}
	if mine.decodeJob(&job); job.Text() != "a body that is longer" || job.StoredAs != string(data) {
		t.Error(job.Text(), job.CodecErr)
	}
	for range [2]int{} {
		if err := mine.DeleteStored(&job); err != nil {
			t.Error(err)
		}
	}
	if files, _ = os.ReadDir(place); len(files) != 0 {
		t.Error(files)
	}
}

func TestAHandlerNeverGetsABodyThatCannotBeDecoded(t *testing.T) {
	one := readVectors(t).Vectors[0]
	for _, mine := range []*Codec{nil, {}} {
		job := Job{Topic: "t", Body: one.Encoded, ContentType: one.EncodedType}
		worker := NewWorker(&Client{codec: mine}, []string{"t"}, func(context.Context, *Job) error { t.Error("the handler is called"); return nil }, WorkerOptions{NoLog: true})
		if err := worker.callHandler(context.Background(), &job); !errors.Is(err, ErrCodec) || job.Body != nil || job.JSON(nil) == nil {
			t.Error(err, job.Body)
		}
	}
}

func TestBadKeysAreRejected(t *testing.T) {
	for id, key := range map[string]int{"a b": 32, "a": 16, "c": 32} {
		if _, err := NewAesGcm(strings.Replace(id, "c", "other", 1), map[string][]byte{id: make([]byte, key)}); err == nil {
			t.Error(id)
		}
	}
}
