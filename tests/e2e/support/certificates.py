"""Certificates for the tests: an authority, servers and clients that it has signed."""

import pathlib
import ssl
import subprocess


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


class Authority:
    """Files in `directory`: NAME.pem and NAME.key; the authority's own are called as it is."""

    def __init__(self, directory, name="authority"):
        self.directory, self.name = pathlib.Path(directory), name
        self.directory.mkdir(parents=True, exist_ok=True)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 30, "-subj", f"/CN={name}",
                "-keyout", self.key(name), "-out", self.certificate(name))

    def certificate(self, name):
        return self.directory / f"{name}.pem"

    def key(self, name):
        return self.directory / f"{name}.key"

    @property
    def file(self):
        return self.certificate(self.name)

    def sign(self, name, names="DNS:localhost,IP:127.0.0.1", common_name=None, days=90, kind=("ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
        """Makes NAME.pem and NAME.key for these names; over what is there."""
        openssl("req", "-x509", "-newkey", *kind, "-nodes", "-days", days, "-subj", f"/CN={common_name or name}",
                *(["-addext", f"subjectAltName={names}"] if names else []), "-addext", "basicConstraints=critical,CA:FALSE",
                "-addext", "extendedKeyUsage=serverAuth,clientAuth", "-addext", "crlDistributionPoints=URI:http://127.0.0.1/none.crl", "-CA", self.file, "-CAkey", self.key(self.name),
                "-keyout", self.key(name), "-out", self.certificate(name))
        return self.certificate(name), self.key(name)

    def context(self, client=None, version=None, check_name=True):
        """Returns the context of a client in Python; `client` is the name of the certificate that it shows."""
        context = ssl.create_default_context(cafile=str(self.file))
        context.check_hostname = check_name
        if version:
            context.minimum_version = context.maximum_version = version
        if client:
            context.load_cert_chain(self.certificate(client), self.key(client))
        return context
