#!/usr/bin/env bash
# The tests of the jar that scripts/bindings built, with JUnit 4. Arguments are given to the Java machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/build-bindings/java
junit=${TARRY_TEST_JUNIT:-/usr/share/java/junit4.jar:/usr/share/java/hamcrest-core.jar}
jar=$(ls "$out"/libtarry-*.jar)
rm -rf "$out/tests"
mkdir -p "$out/tests"
javac --release 11 -Xlint:all -Werror -d "$out/tests" -cp "$jar:$junit" bindings/java/src/test/java/io/tarry/queue/*.java
java -ea -Xcheck:jni -XX:+UseSerialGC -Xmx64m "$@" -cp "$jar:$out/tests:$junit" org.junit.runner.JUnitCore \
    $(cd bindings/java/src/test/java && ls io/tarry/queue/*Test.java | sed 's|/|.|g; s|\.java$||')
