# A small project of many files built by make with two jobs: compiler, archiver, linker, library.
# make keeps the output of its jobs in /tmp.
# grant: /tmp:rw
set -u
exec 2>&1

mkdir -p src include && cd . || exit 1
for i in {1..8}; do
    printf '#pragma once\nint part%d(int);\n' "$i" >"include/part$i.h"
    printf '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include "part%d.h"\nint part%d(int x) { char text[32]; snprintf(text, sizeof text, "%%d", x * %d); return atoi(text); }\n' "$i" "$i" "$i" >"src/part$i.c"
done
{
    echo '#include <stdio.h>'
    for i in {1..8}; do echo "#include \"part$i.h\""; done
    echo 'int main(void) { int sum = 0;'
    for i in {1..8}; do echo "sum += part$i($i);"; done
    echo 'printf("sum %d\n", sum); return sum != 204; }'
} >src/main.c
cat >Makefile <<'X'
PARTS := $(patsubst src/%.c,out/%.o,$(wildcard src/part*.c))
all: out/program out/shared
out: ; @mkdir -p out
out/%.o: src/%.c | out ; @cc -O1 -fPIC -Iinclude -MMD -c $< -o $@
out/libparts.a: $(PARTS) ; @ar rcs $@ $^
out/libparts.so: $(PARTS) ; @cc -shared -o $@ $^
out/program: out/main.o out/libparts.a ; @cc -o $@ $^
out/shared: out/main.o out/libparts.so ; @cc -o $@ out/main.o -Lout -lparts -Wl,-rpath,'$$ORIGIN'
check: all ; @out/program && out/shared && echo checked
-include $(wildcard out/*.d)
X
make -j2 -s && out/program && out/shared
echo $?
make -q && echo "nothing to do"
make check
touch -d '+1 minute' include/part3.h
make -n 2>/dev/null | grep -c ' -c '
sed -i 's/\* 3)/* 4)/' src/part3.c
touch -d '+2 minutes' src/part3.c
make -s
out/program
echo $?
nm out/libparts.a | grep -c ' T part'
ar t out/libparts.a | tr '\n' ' '
size out/program | wc -l
strip out/program
objdump -f out/program | grep -o 'elf64-x86-64'
ldd out/shared | grep -c libparts
file out/program >/dev/null 2>&1
readelf -d out/shared | grep -c ORIGIN
echo 'int main(void) { return missing(); }' | cc -x c -w - -o broken 2>&1 | grep -o 'undefined reference.*'
echo 'this is not C' >bad.c
cc -c bad.c 2>&1 | grep -c error
cc -c nothing.c 2>&1 | head -1
printf 'fail: ; @false\nslow: ; @sleep 0.05; echo slow\nboth: slow fail\n' | make -s -k -j2 -f - both 2>&1 | grep -o -E 'slow|Error 1' | sort
printf 'a b c d: ; @echo $@\nall: a b c d\n' >m
make -s -j4 --output-sync -f m all | sort | tr '\n' ' '
printf 'int f(void) { return 7; }\n' | gcc -O2 -pipe -flto -x c -c - -o lto.o && echo lto
rm -r out src include lto.o
ls
