package tarry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrSignature is returned if a callback was not signed with one of the secrets, or not recently.
var ErrSignature = errors.New("tarry: bad signature")

const tolerance = 300 // seconds, either way

// Verify returns the job of a callback. Give several secrets while they are being replaced, in the form of the policy file, with or
// without whsec_. Pass the body exactly as received. The signature covers id, time and body: trust the other headers, and so the job's
// topic and id, only on https.
func Verify(secrets []string, header http.Header, body []byte) (*Job, error) {
	return VerifyAt(time.Now(), secrets, header, body)
}

// VerifyAt is Verify as of another time.
func VerifyAt(now time.Time, secrets []string, header http.Header, body []byte) (*Job, error) {
	stamp := header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseUint(stamp, 10, 62)
	if age := now.Unix() - int64(seconds); err != nil || age > tolerance || age < -tolerance {
		return nil, fmt.Errorf("%w: the time stamp is missing or too far away", ErrSignature)
	}
	matches := false
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			return nil, errors.New("tarry: a secret is not base64, give it as in the policy file")
		}
		sum := hmac.New(sha256.New, key)
		fmt.Fprintf(sum, "%s.%s.", header.Get("Webhook-Id"), stamp)
		sum.Write(body)
		expected := "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
		for _, signature := range strings.Split(header.Get("Webhook-Signature"), " ") {
			if hmac.Equal([]byte(signature), []byte(expected)) {
				matches = true
			}
		}
	}
	if !matches {
		return nil, fmt.Errorf("%w: no signature is right", ErrSignature)
	}
	job := &Job{Topic: header.Get("Tarry-Topic"), ID: header.Get("Tarry-Id"), Body: body, ContentType: header.Get("Content-Type"), Meta: map[string]string{}}
	job.Attempt, _ = strconv.Atoi(header.Get("Tarry-Attempt"))
	job.Delivery, _ = strconv.ParseInt(header.Get("Tarry-Delivery"), 10, 64)
	for name := range header {
		if rest, ok := strings.CutPrefix(strings.ToLower(name), "tarry-meta-"); ok {
			job.Meta[rest] = header.Get(name)
		}
	}
	return job, nil
}
