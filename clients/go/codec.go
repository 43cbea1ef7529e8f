package tarry

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	encodedType  = "application/vnd.tarry.encoded"
	keyBytes     = 32
	inflatedMax  = 64 << 20
	gzipAbove    = 1024
	storedAbove  = 64 << 10
	stepGzip     = "gzip"
	stepAesGcm   = "aes-gcm"
	stepStored   = "claim-check"
	partBody     = "body"
	partResult   = "result"
	keyIDsMax    = 32
	storedDigits = 32
)

// ErrCodec is the kind of an error for a body or a result that cannot be encoded or decoded. The detail names the key, the step or the limit.
var ErrCodec = errors.New("tarry: codec failed")

func codecError(format string, values ...any) *Error {
	return &Error{Kind: ErrCodec, Code: "codec", Detail: fmt.Sprintf(format, values...)}
}

// Codec changes bodies and results between the program and the server, in the order of its members. docs/codec.md has the format. The zero value changes nothing.
type Codec struct {
	Gzip       *Gzip
	AesGcm     *AesGcm
	ClaimCheck *ClaimCheck
	// Context, such as the name of a service, must be the same for those that encrypt and decrypt: data of another context is rejected.
	Context string
}

// Gzip compresses data of at least Above bytes (1024), if it becomes smaller. Data that inflates to more than Inflated bytes (64 MiB) is an error.
type Gzip struct {
	Above    int
	Inflated int
}

// AesGcm encrypts with AES-256-GCM.
type AesGcm struct {
	current string
	keys    map[string]aesKey
}

type aesKey struct {
	nonces []byte // the key for nonces of schedules
	cipher cipher.AEAD
}

// NewAesGcm returns a step that encrypts under the key current, and decrypts with each of the keys, of 32 bytes, by their ids.
func NewAesGcm(current string, keys map[string][]byte) (*AesGcm, error) {
	made := &AesGcm{current, map[string]aesKey{}}
	for id, key := range keys {
		if !isKeyID(id) {
			return nil, fmt.Errorf("tarry: bad id of a key '%s', give 1 to 32 letters, digits, dots, underscores and hyphens", id)
		}
		if len(key) != keyBytes {
			return nil, fmt.Errorf("tarry: the key '%s' has %d bytes, give %d", id, len(key), keyBytes)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		made.keys[id] = aesKey{digest(key, []byte("tarry-codec nonce")), aead}
	}
	if _, is := made.keys[current]; !is {
		return nil, fmt.Errorf("tarry: there is no key '%s', add it to the keys", current)
	}
	return made, nil
}

func digest(key, data []byte) []byte {
	made := hmac.New(sha256.New, key)
	made.Write(data)
	return made.Sum(nil)
}

func isKeyID(id string) bool {
	return id != "" && len(id) <= keyIDsMax && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// encrypt makes equal bytes of equal data if isSteady is set, so that the same schedule again changes nothing.
func (a *AesGcm) encrypt(data, bound []byte, isSteady bool, nonce []byte) ([]byte, error) {
	key := a.keys[a.current]
	if nonce == nil && isSteady {
		nonce = digest(key.nonces, bytes.Join([][]byte{bound, data}, []byte("\n")))[:key.cipher.NonceSize()]
	} else if nonce == nil {
		nonce = make([]byte, key.cipher.NonceSize())
		if _, err := rand.Read(nonce); err != nil {
			return nil, err
		}
	}
	return key.cipher.Seal(slices.Clip(nonce), nonce, data, bound), nil
}

func (a *AesGcm) decrypt(data, bound []byte, id, part string) ([]byte, error) {
	key, is := a.keys[id]
	if !is {
		return nil, codecError("the %s is encrypted with the key '%s', which the codec does not have", part, id)
	}
	if len(data) < key.cipher.NonceSize()+key.cipher.Overhead() {
		return nil, codecError("the %s is too short to be encrypted", part)
	}
	plain, err := key.cipher.Open(nil, data[:key.cipher.NonceSize()], data[key.cipher.NonceSize():], bound)
	if err != nil {
		return nil, codecError("the %s cannot be decrypted with the key '%s': it was changed, or has another context", part, id)
	}
	return plain, nil
}

// Store has bodies in place of the server. A name is 32 hexadecimal digits. Goroutines may call a store at the same time.
type Store interface {
	Put(name string, data []byte) error
	Get(name string) ([]byte, error) // fs.ErrNotExist if the store does not have it
	Delete(name string) error        // nil if the store does not have it
}

// DirectoryStore is the path of a directory that all producers and consumers share. The files are synced to the disk.
type DirectoryStore string

// Put writes a file that its user alone can read.
func (d DirectoryStore) Put(name string, data []byte) error {
	file, err := os.CreateTemp(string(d), ".*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(string(d), name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	directory, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// Get reads a file.
func (d DirectoryStore) Get(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(d), name))
}

// Delete removes a file.
func (d DirectoryStore) Delete(name string) error {
	if err := os.Remove(filepath.Join(string(d), name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ClaimCheck stores data of more than Above bytes (65536) in a store. The server gets its name. A worker deletes the data of a body after the ack of its job,
// unless Keep is set.
type ClaimCheck struct {
	Store Store
	Above int
	Keep  bool
}

func firstPositive(one, otherwise int) int {
	if one > 0 {
		return one
	}
	return otherwise
}

// Encode returns the bytes of a body for the server, and their content type.
func (c *Codec) Encode(data []byte, contentType string) ([]byte, string, error) {
	return c.encode(data, contentType, partBody, false, nil)
}

// Decode returns the bytes and the content type of a body as they were before Encode: for bodies that come by a callback or a broker. Data that is not encoded stays as it is.
func (c *Codec) Decode(data []byte, contentType string) ([]byte, string, error) {
	out, kind, _, err := c.decode(data, contentType, partBody)
	return out, kind, err
}

func (c *Codec) encode(data []byte, contentType, part string, isSteady bool, nonce []byte) ([]byte, string, error) {
	if c == nil {
		return data, contentType, nil
	}
	if len(contentType) > 255 {
		return nil, "", codecError("the content type has more than 255 bytes")
	}
	out := bytes.Join([][]byte{{byte(len(contentType))}, []byte(contentType), data}, nil)
	var steps []string
	key := ""
	if c.Gzip != nil && len(data) >= firstPositive(c.Gzip.Above, gzipAbove) {
		packed, err := deflate(out)
		if err != nil {
			return nil, "", err
		}
		if len(packed) < len(out) {
			out, steps = packed, append(steps, stepGzip)
		}
	}
	if c.AesGcm != nil {
		steps, key = append(steps, stepAesGcm), "; key="+c.AesGcm.current
		var err error
		if out, err = c.AesGcm.encrypt(out, c.bound(part, steps, c.AesGcm.current), isSteady, nonce); err != nil {
			return nil, "", err
		}
	}
	if c.ClaimCheck != nil && !isSteady && len(out) > firstPositive(c.ClaimCheck.Above, storedAbove) {
		var random [storedDigits / 2]byte
		if _, err := rand.Read(random[:]); err != nil {
			return nil, "", err
		}
		name := hex.EncodeToString(random[:])
		if err := c.ClaimCheck.Store.Put(name, out); err != nil {
			return nil, "", err
		}
		out, steps = []byte(name), append(steps, stepStored)
	}
	if len(steps) == 0 {
		return data, contentType, nil
	}
	return out, encodedType + "; steps=" + strings.Join(steps, "+") + key, nil
}

// bound returns the additional data that is authenticated.
func (c *Codec) bound(part string, steps []string, key string) []byte {
	return []byte("tarry-codec 1\n" + part + "\n" + strings.Join(steps, "+") + "\n" + key + "\n" + c.Context)
}

// decode also returns the name in the store, if there is one.
func (c *Codec) decode(data []byte, contentType, part string) ([]byte, string, string, error) {
	if !isEncoded(contentType) {
		return data, contentType, "", nil
	}
	steps, key, err := stepsOf(contentType, part)
	if err != nil {
		return nil, "", "", err
	}
	if c == nil {
		return nil, "", "", codecError("the %s is encoded (%s), and the client has no codec", part, strings.Join(steps, ", "))
	}
	name := ""
	if steps[len(steps)-1] == stepStored {
		steps, name = steps[:len(steps)-1], string(data)
		if data, err = c.fetch(name, part); err != nil {
			return nil, "", "", err
		}
	}
	if key != "" {
		if c.AesGcm == nil {
			return nil, "", "", codecError("the %s is encrypted with the key '%s', and the codec has no keys", part, key)
		}
		if data, err = c.AesGcm.decrypt(data, c.bound(part, steps, key), key, part); err != nil {
			return nil, "", "", err
		}
	}
	if len(steps) > 0 && steps[0] == stepGzip {
		most := inflatedMax
		if c.Gzip != nil {
			most = firstPositive(c.Gzip.Inflated, inflatedMax)
		}
		if data, err = inflate(data, most, part); err != nil {
			return nil, "", "", err
		}
	}
	if len(data) == 0 || len(data) <= int(data[0]) {
		return nil, "", "", codecError("the %s is too short", part)
	}
	end := 1 + int(data[0])
	if !utf8.Valid(data[1:end]) {
		return nil, "", "", codecError("the %s has a bad content type", part)
	}
	return data[end:], string(data[1:end]), name, nil
}

func (c *Codec) fetch(name, part string) ([]byte, error) {
	if c.ClaimCheck == nil {
		return nil, codecError("the %s is stored elsewhere, and the codec has no store", part)
	}
	if len(name) != storedDigits || strings.Trim(name, "0123456789abcdef") != "" {
		return nil, codecError("the %s is stored elsewhere, but its name is not valid", part)
	}
	data, err := c.ClaimCheck.Store.Get(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, codecError("the %s is stored elsewhere as '%s', which the store does not have", part, name)
	}
	if err != nil {
		fault := codecError("the %s is stored elsewhere as '%s' and cannot be read: %s", part, name, err)
		fault.cause = err
		return nil, fault
	}
	return data, nil
}

// DeleteStored deletes the stored body of an acked job, if it has one. A worker does this itself.
func (c *Codec) DeleteStored(job *Job) error {
	if c == nil || c.ClaimCheck == nil || c.ClaimCheck.Keep || job.StoredAs == "" {
		return nil
	}
	return c.ClaimCheck.Store.Delete(job.StoredAs)
}

func isEncoded(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.TrimSpace(kind) == encodedType
}

// stepsOf returns the steps in the order of their application, and the id of the key.
func stepsOf(contentType, part string) ([]string, string, error) {
	members := map[string]string{}
	for _, one := range strings.Split(contentType, ";")[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
		members[name] = value
	}
	order := []string{stepGzip, stepAesGcm, stepStored}
	steps, last := strings.Split(members["steps"], "+"), -1
	isInOrder := true
	for _, one := range steps {
		at := slices.Index(order, one)
		if at < 0 {
			return nil, "", codecError("the %s has the step '%s', which the codec does not have", part, one)
		}
		isInOrder = isInOrder && at > last
		last = at
	}
	if !isInOrder || slices.Contains(steps, stepAesGcm) != isKeyID(members["key"]) {
		return nil, "", codecError("the content type of the %s is not valid", part)
	}
	return steps, members["key"], nil
}

// packers are kept, because a new one clears 800 kB of memory.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func deflate(data []byte) ([]byte, error) {
	var packed bytes.Buffer
	packer := packers.Get().(*gzip.Writer)
	defer packers.Put(packer)
	packer.Reset(&packed)
	_, err := packer.Write(data)
	err = errors.Join(err, packer.Close())
	return packed.Bytes(), err
}

func inflate(data []byte, most int, part string) ([]byte, error) {
	bad := codecError("the %s is not valid gzip", part)
	rest := bytes.NewReader(data)
	reader, err := gzip.NewReader(rest)
	if err != nil {
		return nil, bad
	}
	reader.Multistream(false)
	out, err := io.ReadAll(io.LimitReader(reader, int64(most)+1))
	if len(out) > most {
		return nil, codecError("the %s inflates to more than %d bytes", part, most)
	}
	if err != nil || rest.Len() > 0 {
		return nil, bad
	}
	return out, nil
}

// decodeJob decodes body and result. One that cannot be decoded is removed.
func (c *Codec) decodeJob(job *Job) {
	decode := func(data *[]byte, kind *string, part string) {
		if len(*data) == 0 {
			return
		}
		out, found, name, err := c.decode(*data, *kind, part)
		if err != nil {
			*data, job.CodecErr = nil, err
			return
		}
		*data, *kind = out, found
		if part == partBody {
			job.StoredAs = name
		}
	}
	decode(&job.Body, &job.ContentType, partBody)
	decode(&job.Result, &job.ResultType, partResult)
}
